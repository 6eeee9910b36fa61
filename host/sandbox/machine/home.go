package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/sandbox/removeall"
)

// homes creates the home folders of a machine's commands.
//
// Many programs read a file in HOME before they look at their arguments (.wgetrc, .curlrc, .gitconfig, .npmrc, usercustomize.py), and such
// a file can name a program to run. A person who approves a command line sees all of what it does only if nobody could have written such a
// file before. Each command therefore has its own, empty HOME, out of reach of tools, sandboxes and mounts, which is removed with the
// command. An approved command leaves nothing in HOME for the next one.
type homes struct {
	dir string // used by this machine only
}

// caches are folders of HOME that are kept, or every build would start from nothing. Programs store downloads and build results in them,
// but no configuration.
func caches() []string { return []string{".cache", ".npm", ".cargo/registry", "go"} }

const (
	cacheFolder   = "cache"
	keptFolder    = "kept" // HOME of commands with KeepHome
	commandPrefix = "command-"
)

// newHomes opens the folder dir. It removes homes that a crash has left.
func newHomes(dir, workspace string) (homes, error) {
	if !filepath.IsAbs(dir) {
		return homes{}, fmt.Errorf("home folders %q: the path must be absolute", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return homes{}, err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return homes{}, err
	}
	if within(resolved, workspace) || within(workspace, resolved) {
		return homes{}, fmt.Errorf("home folders %q: they must be neither in the workspace nor around it", dir)
	}
	h := homes{dir: resolved}
	left, err := filepath.Glob(filepath.Join(resolved, commandPrefix+"*"))
	for _, folder := range left {
		err = errors.Join(err, removeall.Folder(folder))
	}
	return h, err
}

// within reports whether a clean path is folder or lies in it.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// make returns the HOME of one command. remove removes it after the command has ended.
func (h homes) make(keep bool) (home string, remove func() error, err error) {
	if keep {
		home = filepath.Join(h.dir, keptFolder)
		return home, func() error { return nil }, os.MkdirAll(home, 0o700)
	}
	if home, err = os.MkdirTemp(h.dir, commandPrefix); err != nil {
		return "", nil, err
	}
	remove = func() error { return removeall.Folder(home) }
	for _, name := range caches() {
		cache, link := filepath.Join(h.dir, cacheFolder, name), filepath.Join(home, name)
		if err = errors.Join(os.MkdirAll(cache, 0o700), os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(cache, link)); err != nil {
			return "", nil, errors.Join(err, remove())
		}
	}
	return home, remove, nil
}

// homeVariables returns HOME and the variables of the XDG base directory specification.
func homeVariables(home string) map[string]string {
	return map[string]string{
		"HOME":            home,
		"XDG_CONFIG_HOME": filepath.Join(home, ".config"),
		"XDG_CACHE_HOME":  filepath.Join(home, ".cache"),
		"XDG_DATA_HOME":   filepath.Join(home, ".local/share"),
		"XDG_STATE_HOME":  filepath.Join(home, ".local/state"),
	}
}
