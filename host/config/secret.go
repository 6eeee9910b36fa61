package config

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/flynnhost/flynn/host/internal/redact"
)

// Secret is a value that prints as redacted, in every format.
type Secret = redact.Secret

// maxSecret bounds a secret read from a file, in bytes.
const maxSecret = 64 << 10

// fromEnv reads a secret from the environment. It may be missing if it is not needed.
func (c *checker) fromEnv(at keyPath, variable string, needed bool) Secret {
	if variable == "" || strings.ContainsAny(variable, "=\x00") {
		c.report(at, fmt.Sprintf("%q is not a name of an environment variable", variable), `write one such as "API_KEY"`)
		return ""
	}
	value := c.getenv(variable)
	if value == "" && needed && !c.secretless {
		c.report(at, fmt.Sprintf("environment variable %s is not set", variable), "export it, or name a file by "+secretStem(at.last())+fileSuffix)
	}
	return Secret(value)
}

// fromFile reads a secret from a file that only its owner may read. Line ends at the end of the file are dropped.
func (c *checker) fromFile(at keyPath, path string, needed bool) Secret {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block the start
	if err != nil {
		if needed && !c.secretless {
			c.report(at, fmt.Sprintf("open %s: %v", path, cause(err)), "paths count from the folder of the configuration file")
		}
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		c.report(at, fmt.Sprintf("look at %s: %v", path, cause(err)), "")
		return ""
	case !info.Mode().IsRegular():
		c.report(at, path+" is not a regular file", "name a file that holds nothing but the secret")
		return ""
	case info.Mode().Perm()&0o077 != 0:
		c.report(at, fmt.Sprintf("%s is open to others (mode %04o)", path, info.Mode().Perm()), "run chmod 600 "+path)
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	value := strings.TrimRight(string(data), "\r\n")
	switch {
	case err != nil:
		c.report(at, fmt.Sprintf("read %s: %v", path, cause(err)), "")
		return ""
	case len(data) > maxSecret:
		c.report(at, fmt.Sprintf("%s is larger than %s", path, Size(maxSecret)), "name a file that holds nothing but the secret")
		return ""
	case value == "" && needed && !c.secretless:
		c.report(at, path+" is empty", "write the secret into it")
	}
	return Secret(value)
}
