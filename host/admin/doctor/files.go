package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
)

const (
	othersAll   = 0o077 // what others may do with a secret
	othersWrite = 0o002
)

// checkFiles looks for files that other users of this machine can read or change, and should not.
func checkFiles(_ context.Context, x *exam) {
	c := x.Config
	for _, path := range append([]string{c.Store.Dir, c.Gateway.TokenFile}, secretFiles(c)...) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&othersAll != 0 {
			x.readable(path, fmt.Sprintf("%s is open to others (mode %04o)", path, info.Mode().Perm()))
		}
	}
	for _, path := range trusted(c) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&othersWrite == 0 || info.Mode()&os.ModeSticky != 0 {
			continue
		}
		x.add(Finding{
			Code: FileWritable, What: fmt.Sprintf("everybody can write to %s (mode %04o)", path, info.Mode().Perm()), Command: "chmod o-w " + config.ShellWord(path),
			File: path, Fixable: true, remove: othersWrite,
		})
	}
}

// readable reports a file or folder with secrets that others can read.
func (x *exam) readable(path, what string) {
	x.add(Finding{Code: FileReadable, What: what, Command: "chmod go= " + config.ShellWord(path), File: path, Fixable: true, remove: othersAll})
}

// secretFiles are the files of secrets in the store, and files of variables beside the configuration.
func secretFiles(c *config.Config) (paths []string) {
	entries, _ := os.ReadDir(setup.SecretsDir(c))
	for _, e := range entries {
		paths = append(paths, filepath.Join(setup.SecretsDir(c), e.Name()))
	}
	folder := filepath.Dir(c.Path)
	entries, _ = os.ReadDir(folder)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".env") {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths
}

// trusted are the files and folders that decide what flynn does.
func trusted(c *config.Config) []string {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		path = c.Path
	}
	paths := []string{path, filepath.Dir(path), c.Plugins.Dir}
	for _, name := range slices.Sorted(maps.Keys(c.Plugins.DevPaths)) {
		paths = append(paths, c.Plugins.DevPaths[name])
	}
	for _, p := range c.Policies {
		if p.Path != "" {
			paths = append(paths, p.Path, filepath.Dir(p.Path))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Fix mends a finding if that is safe: it takes the rights of others from a file or folder.
func Fix(f Finding) error {
	if !f.Fixable {
		return nil
	}
	info, err := os.Lstat(f.File)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return fmt.Errorf("%s is neither a file nor a folder: look at it yourself", f.File)
	}
	return os.Chmod(f.File, info.Mode()&^fs.FileMode(f.remove))
}

// ErrPerson is the error of a code that only a person can mend.
var ErrPerson = errors.New("only a person can mend this")

// ErrNoCode is the error of a code that no finding has.
var ErrNoCode = errors.New("no finding has this code")

// Mend looks for the findings of a code that Fix can mend, mends them, and returns them.
func Mend(ctx context.Context, s Subject, code Code) ([]Finding, error) {
	switch {
	case !slices.Contains(Codes(), code):
		return nil, ErrNoCode
	case code != FileReadable && code != FileWritable:
		return nil, ErrPerson
	}
	x := &exam{Subject: s}
	if x.Config, x.LoadError = config.LoadBeside(s.Path, s.Getenv, s.Checks...); x.LoadError != nil {
		x.Config = nil
		checkLoading(x)
	} else {
		checkFiles(ctx, x)
	}
	var mended []Finding
	for _, f := range x.report.Findings {
		if f.Code != code || !f.Fixable {
			continue
		}
		if err := Fix(f); err != nil {
			return mended, fmt.Errorf("mend %s: %w", f.Code, err)
		}
		mended = append(mended, f)
	}
	return mended, nil
}

// megabytes is a size for people.
func megabytes(n uint64) string { return fmt.Sprintf("%d MB", n>>20) }
