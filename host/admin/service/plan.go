package service

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/fileowner"
)

// harmless are the variables that a user's service gets from the one who installs it: those that change where Flynn finds things. None of
// them is ever a secret.
func harmless() []string { return []string{"PATH", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DOCKER_HOST"} }

// macPath is the search path of a service of a Mac; launchd's own has no Docker.
const macPath = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// Plan returns what the service of a configuration runs, after loading it with what the service will have of the environment. as is the user
// of a service of the machine; "" is the owner of the configuration or, if that is root, flynn.
func (s *Service) Plan(path, as string, checks ...config.Check) (spec Spec, err error) {
	if spec.Config, err = filepath.Abs(path); err != nil {
		return spec, err
	}
	if spec.Program, err = stableProgram(); err != nil {
		return spec, err
	}
	spec.Folder = filepath.Dir(spec.Config)
	env := map[string]string{"HOME": s.Home}
	if err := s.account(&spec, env, as); err != nil {
		return spec, err
	}
	switch {
	case s.OS == "linux":
		spec.Secrets = filepath.Join(spec.Folder, "secrets.env")
		if err := readSecrets(spec.Secrets, env); err != nil {
			return spec, err
		}
	case s.System:
		spec.Environment = append(spec.Environment, "PATH="+macPath)
	}
	c, err := config.Load(spec.Config, func(name string) string { return env[name] }, checks...)
	if err != nil {
		return spec, withHint(err, spec.Secrets)
	}
	spec.Writable = writtenBy(c, env["HOME"])
	return spec, nil
}

// account chooses the user of a service of the machine, and the variables of a user's own.
func (s *Service) account(spec *Spec, env map[string]string, as string) error {
	if s.System {
		account, err := accountFor(spec.Config, as)
		if err != nil {
			return err
		}
		spec.User, env["HOME"] = account.Username, account.HomeDir
		for _, path := range []string{spec.Program, spec.Config} {
			if err := reachable(path, account); err != nil {
				return err
			}
		}
		return nil
	}
	if as != "" {
		return errors.New("a service of your own runs as you: choose a user for one of the whole machine")
	}
	for _, name := range harmless() {
		if v := s.Getenv(name); v != "" {
			env[name] = v
			spec.Environment = append(spec.Environment, name+"="+v)
		}
	}
	return nil
}

// accountFor returns the user of a service of the machine.
func accountFor(path, as string) (*user.User, error) {
	if as == "" {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
		if uid, ok := fileowner.Of(info); ok && uid != 0 {
			return user.LookupId(strconv.Itoa(uid))
		}
		as = "flynn"
	}
	account, err := user.Lookup(as)
	switch {
	case err != nil:
		return nil, fmt.Errorf("there is no user %s to run the service as: make one, with useradd --system --create-home --home-dir /var/lib/%s %s, "+
			"or name another with --as", as, as, as)
	case account.Uid == "0":
		return nil, errors.New("flynn does not run as root in a service: name another user with --as")
	}
	return account, nil
}

// reachable reports a path that a service of the machine could not open.
func reachable(path string, as *user.User) error {
	for _, dir := range []string{"/tmp/", "/var/tmp/"} {
		if strings.HasPrefix(path, dir) {
			return fmt.Errorf("%s: a service of the machine has a %s of its own: move it elsewhere, such as to /usr/local/bin or /etc/flynn",
				path, strings.TrimSuffix(dir, "/"))
		}
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("look for %s: %w", path, err)
		}
		if uid, ok := fileowner.Of(info); ok && info.Mode().Perm()&0o001 == 0 && strconv.Itoa(uid) != as.Uid {
			return fmt.Errorf("user %s may not enter %s, and so cannot use %s: move it elsewhere, such as to /usr/local/bin or /etc/flynn", as.Username, dir, path)
		}
	}
	return nil
}

// withHint says which variables a service has, where one is missing.
func withHint(err error, secrets string) error {
	var bad config.Errors
	if !errors.As(err, &bad) {
		return err
	}
	hint := "a service has only the variables in " + secrets + ": write it there, or store it with flynn secret set and name the file"
	if secrets == "" {
		hint = "launchd gives a service no secrets: store it with flynn secret set and name the file"
	}
	for i := range bad {
		if strings.HasPrefix(bad[i].Problem, "environment variable ") {
			bad[i].Hint = hint
		}
	}
	return bad
}

// writtenBy returns the folders that a Flynn with a configuration writes to.
func writtenBy(c *config.Config, home string) []string {
	dirs := []string{filepath.Dir(c.Path), c.Store.Dir, c.Plugins.Dir}
	if home != "" {
		dirs = append(dirs, filepath.Join(home, ".cache", "flynn"))
	}
	for _, t := range c.Tools {
		dirs = append(dirs, t.Write...)
	}
	for _, d := range c.UsedDrivers() {
		dirs = append(dirs, d.Write...)
	}
	for _, s := range append(slices.Collect(maps.Values(c.Sandboxes)), c.Sandbox) {
		for _, m := range s.Mounts {
			if !m.ReadOnly {
				dirs = append(dirs, m.Source)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// stableProgram returns the path of this program that stays the same when its next version replaces it.
func stableProgram() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program: %w", err)
	}
	if found, err := exec.LookPath("flynn"); err == nil && filepath.IsAbs(found) {
		a, err1 := os.Stat(found)
		b, err2 := os.Stat(exe)
		if err1 == nil && err2 == nil && os.SameFile(a, b) {
			return found, nil
		}
	}
	if strings.Contains(exe, string(filepath.Separator)+"go-build") {
		return "", errors.New("the go command deletes this program when it ends: build flynn first, with go build ./cmd/flynn, and run that")
	}
	return exe, nil
}

// readSecrets reads the variables of a file much as EnvironmentFile of systemd does; a missing file has none.
func readSecrets(path string, into map[string]string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the service's secrets: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the service's secrets: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others can read %s: run chmod 600 on it", path)
	}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%s, line %d: must have the form NAME=VALUE", path, n) // without the line, which may be a secret
		}
		into[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"'`)
	}
	return lines.Err()
}
