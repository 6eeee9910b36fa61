package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Check is a further check of a configuration, by a package above this one. In its Config,
// wrong values may have been replaced by their defaults.
type Check func(*Config) Errors

// Load reads the file at path, fills in the defaults and resolves secrets from the environment and from files. Its error
// is of type Errors and holds all errors by line, those of the checks included.
func Load(path string, getenv func(string) string, checks ...Check) (*Config, error) {
	src, err := readSource(path)
	if err != nil {
		return nil, err
	}
	return parse(path, src, getenv, checks...)
}

// LoadBeside is Load for commands that work beside a host or on its store. A missing secret is left empty: only the host needs it, and the
// host has another environment.
func LoadBeside(path string, getenv func(string) string, checks ...Check) (*Config, error) {
	src, err := readSource(path)
	if err != nil {
		return nil, err
	}
	return result(parseBeside(path, src, getenv, checks...))
}

// Read returns the text of the file at path.
func Read(path string) ([]byte, error) { return readFile(path) }

// DigestOf returns the digest of a text, as Config.Digest has it.
func DigestOf(src []byte) string { return digest(src) }

// LoadAs is Load for a text that is to become the file at path.
func LoadAs(path string, src []byte, getenv func(string) string, checks ...Check) (*Config, error) {
	if len(src) > maxFile {
		return nil, tooLarge(path)
	}
	return parse(path, src, getenv, checks...)
}

func tooLarge(path string) Errors {
	return Errors{{File: path, Problem: fmt.Sprintf("the configuration would be larger than %s", Size(maxFile))}}
}

// LoadText is LoadBeside for a text that is to become the file at path.
func LoadText(path string, src []byte, getenv func(string) string, checks ...Check) (*Config, error) {
	if len(src) > maxFile {
		return nil, tooLarge(path)
	}
	return result(parseBeside(path, src, getenv, checks...))
}

// LoadGateway reads the address of the gateway of a running host. It ignores errors in other sections: a host keeps running when its file
// is broken, and commands must still reach and stop it.
func LoadGateway(path string, getenv func(string) string) (Gateway, error) {
	src, err := readSource(path)
	if err != nil {
		return Gateway{}, err
	}
	cfg, errs := parseBeside(path, src, getenv)
	errs = slices.DeleteFunc(errs, func(e Error) bool {
		section, _, _ := strings.Cut(e.Key, ".")
		return e.Key != "" && section != "gateway" && section != "store"
	})
	if cfg, err = result(cfg, errs); err != nil {
		return Gateway{}, err
	}
	return cfg.Gateway, nil
}

func readSource(path string) ([]byte, error) {
	src, err := readFile(path)
	if err != nil {
		return nil, Errors{{File: path, Problem: err.Error(), Hint: "name the configuration with --config or FLYNN_CONFIG"}}
	}
	return src, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the configuration: %w", cause(err))
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", cause(err))
	}
	if len(src) > maxFile {
		return nil, fmt.Errorf("read the configuration: larger than %s", Size(maxFile))
	}
	return src, nil
}

// cause drops the operation and path that the os package puts before an error; our messages name both.
func cause(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// parse is Load for a text.
func parse(path string, src []byte, getenv func(string) string, checks ...Check) (*Config, error) {
	return result(judge(path, src, &checker{getenv: getenv}, checks))
}

func parseBeside(path string, src []byte, getenv func(string) string, checks ...Check) (*Config, Errors) {
	return judge(path, src, &checker{getenv: getenv, secretless: true}, checks)
}

// result returns a configuration without errors.
func result(cfg *Config, errs Errors) (*Config, error) {
	if len(errs) > 0 {
		return nil, errs
	}
	return cfg, nil
}

// judge reads a configuration and returns all its errors. The configuration is nil if lines could not be parsed.
func judge(path string, src []byte, c *checker, checks []Check) (*Config, Errors) {
	getenv := c.getenv
	doc := readDocument(path, string(src))
	d := &decoder{file: path, lines: doc.lines, errs: doc.errs, expand: expander(path, getenv), unread: map[string]bool{}}
	cfg := &Config{}
	v := reflect.ValueOf(cfg).Elem()
	v.Set(defaults(v.Type()))
	d.table(nil, doc.keys, v)
	cfg.Path, cfg.Digest, cfg.lines, cfg.Renamed = path, digest(src), doc.lines, d.renamed
	if len(doc.errs) > 0 {
		// Lines were left out: keys that seem to be missing may be there.
		return nil, d.errs.sort()
	}
	d.fill(cfg, getenv)
	c.decoder, c.cfg = d, cfg
	c.all()
	for _, check := range checks {
		d.errs = append(d.errs, check(cfg)...)
	}
	return cfg, d.errs.sort()
}

func digest(src []byte) string {
	sum := sha256.Sum256(src)
	return hex.EncodeToString(sum[:])
}

// expander makes paths absolute: "~/" is the home folder, and a relative path counts from the folder of the
// configuration file.
func expander(config string, getenv func(string) string) func(string) (string, error) {
	return func(path string) (string, error) {
		if rest, ok := cutHome(path); ok {
			home := getenv("HOME")
			if home == "" {
				return "", errors.New("HOME is not set, so ~ means nothing")
			}
			return filepath.Join(home, rest), nil
		}
		if filepath.IsAbs(path) {
			return filepath.Clean(path), nil
		}
		folder, err := filepath.Abs(filepath.Dir(config))
		if err != nil {
			return "", fmt.Errorf("find the folder of %s: %w", config, err)
		}
		return filepath.Join(folder, path), nil
	}
}

func cutHome(path string) (rest string, ok bool) {
	if path == "~" {
		return "", true
	}
	if len(path) >= 2 && path[0] == '~' && path[1] == filepath.Separator {
		return path[2:], true
	}
	return "", false
}
