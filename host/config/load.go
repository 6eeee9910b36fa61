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

// Check is a further check of a configuration, by a package above this one. It sees a Config
// in which single values may have been wrong and replaced by their defaults.
type Check func(*Config) Errors

// Load reads the file at path, fills in the defaults and resolves secrets from the environment and from files. When
// anything is wrong, the error is of type Errors and holds all that is wrong, by line, what the checks found included.
func Load(path string, getenv func(string) string, checks ...Check) (*Config, error) {
	src, err := readSource(path)
	if err != nil {
		return nil, err
	}
	return parse(path, src, getenv, checks...)
}

// LoadBeside is Load for what works beside a host, or on what one has stored: a secret that is not there is left empty and no error. The
// host alone needs it, and has an environment of its own.
func LoadBeside(path string, getenv func(string) string, checks ...Check) (*Config, error) {
	src, err := readSource(path)
	if err != nil {
		return nil, err
	}
	return result(parseBeside(path, src, getenv, checks...))
}

// LoadGateway reads where the gateway of a host is that runs by the file at path. Nothing else that is wrong with it is an error: a host
// goes on with what it had when the file is broken, and is to be found, and stopped, all the same.
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

// parse is Load of text that was read already.
func parse(path string, src []byte, getenv func(string) string, checks ...Check) (*Config, error) {
	return result(judge(path, src, &checker{getenv: getenv}, checks))
}

func parseBeside(path string, src []byte, getenv func(string) string, checks ...Check) (*Config, Errors) {
	return judge(path, src, &checker{getenv: getenv, secretless: true}, checks)
}

// result is a configuration in which nothing is wrong.
func result(cfg *Config, errs Errors) (*Config, error) {
	if len(errs) > 0 {
		return nil, errs
	}
	return cfg, nil
}

// judge reads a configuration and tells all that is wrong with it. There is none where lines could not be read.
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
		// Lines were left out: what seems to be missing may stand there.
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
