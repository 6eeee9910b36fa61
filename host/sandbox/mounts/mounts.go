// Package mounts decides which folders and files of the host a sandbox may see, and where.
//
// Start with Rules: Check says whether a source is allowed, Open does the same and holds what it found, so that the
// caller that mounts it can tell afterwards whether that very folder was mounted. CheckTargets judges the places inside.
//
// Nothing of the host may be mounted but what lies below the roots that the owner lists, and some places never are, whatever
// the roots say: the system's, the engine's, Flynn's own, the store of any other Flynn, and the hidden folders of homes, which hold keys. Links are
// followed before anything is decided. The package touches no engine and mounts nothing.
package mounts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rules say which sources are allowed. The zero value allows none.
type Rules struct {
	// Roots are absolute folders; a source is one of them or lies below one.
	Roots []string
	// RootsKey is where people write the roots. mount_roots of [sandbox]
	RootsKey string
	// Secret are further absolute paths that no source may be, contain or lie below: what Flynn itself keeps, and the
	// engine's socket and data.
	Secret []string
	// Hidden are absolute paths whose content no image may hold either: secrets, logins and conversations.
	Hidden []string
	// Home is the home folder of the user that Flynn runs as.
	Home string
}

// system are the places that no container may see, in addition to what Rules name. The engines' data is among
// them: a writer of that data writes to every container.
func system() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/run",
		"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/var/lib/rancher", "/var/spool/cron",
	}
}

// homes are the folders that have homes in them.
func homes() []string { return []string{"/home", "/Users"} }

// Check reports whether a folder or file may be mounted, and returns its path without links.
func (r Rules) Check(source string) (resolved string, err error) {
	s, err := r.Open(source)
	if err != nil {
		return "", err
	}
	return s.Path, s.Close()
}

// Open checks a source as Check does and keeps hold of it. Close it once it is mounted.
func (r Rules) Open(source string) (*Source, error) {
	if err := checkWords(source); err != nil {
		return nil, err
	}
	if len(r.Roots) == 0 {
		return nil, fmt.Errorf("%s is a folder of the host, and none may be mounted: list its parent in %s", source, r.rootsKey())
	}
	s, err := open(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: make it, or correct source", source, cause(err))
	}
	if err := r.judge(s); err != nil {
		s.Close()
		if s.Path != filepath.Clean(source) {
			err = fmt.Errorf("%s leads to %w", source, err)
		}
		return nil, err
	}
	return s, nil
}

func (r Rules) rootsKey() string { return cmp.Or(r.RootsKey, "mount_roots of [sandbox]") }

// checkWords refuses what is no path on its own. A colon separates options elsewhere, never here.
func checkWords(source string) error {
	switch {
	case strings.ContainsRune(source, ':'):
		return fmt.Errorf("%q has a colon: write source, target and read_only as keys of their own", source)
	case strings.ContainsFunc(source, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }):
		return fmt.Errorf("%q has a character that no path should have: rename it", source)
	case !filepath.IsAbs(source):
		return fmt.Errorf("%q is not an absolute path: write it from / on", source)
	}
	return nil
}

// judge applies the rules to a path without links.
func (r Rules) judge(s *Source) error {
	path := s.Path
	switch {
	case !s.info.IsDir() && !s.info.Mode().IsRegular():
		return fmt.Errorf("%s, which is neither a folder nor a regular file: mount the folder of data instead", path)
	case !slices.ContainsFunc(r.Roots, func(root string) bool { return below(path, root) || below(path, follow(root)) }):
		return fmt.Errorf("%s, which lies below no folder of %s: add its parent there", path, r.rootsKey())
	}
	if secret, why := r.secret(path); secret != "" {
		return fmt.Errorf("%s, which %s: mount a folder that holds nothing but what the sandbox needs", path, why)
	}
	if store, inside := storeAround(path); store != "" {
		why := "holds"
		if inside {
			why = "is or lies in"
		}
		return fmt.Errorf("%s, which %s %s, the store of a Flynn: mount a folder that holds nothing but what the sandbox needs", path, why, store)
	}
	if s.info.IsDir() {
		return checkSockets(path)
	}
	return nil
}

// secret returns a place that may not be seen and why the path would show it.
func (r Rules) secret(path string) (place, why string) {
	for _, p := range append(system(), r.Secret...) {
		for _, place := range []string{filepath.Clean(p), follow(p)} {
			if below(path, place) {
				return place, "is or lies in " + place
			}
			if below(place, path) {
				return place, "contains " + place
			}
		}
	}
	for _, home := range append(r.homesOf(path), r.Home, follow(r.Home)) {
		switch {
		case home == "":
		case below(home, path):
			return home, "contains the hidden folders of " + home
		case below(path, home) && strings.HasPrefix(strings.TrimPrefix(path, home), "/."):
			return path, "lies in a hidden folder of " + home
		}
	}
	return "", ""
}

// homesOf returns the homes that a path by its looks lies in, or contains.
func (r Rules) homesOf(path string) []string {
	var found []string
	for _, parent := range homes() {
		if below(parent, path) {
			return []string{parent}
		}
		if rest, ok := strings.CutPrefix(path, parent+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			found = append(found, parent+"/"+name)
		}
	}
	return found
}

// checkSockets refuses a folder with a socket in it: a read-only mount does not keep anybody from connecting to it. It
// looks no deeper; what is known to be an engine's socket is refused at any depth.
func checkSockets(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s, which this user may not read: change its mode, or mount another folder", folder)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 {
			return fmt.Errorf("%s, which holds the socket %s of a server on the host: mount a folder without one", folder, e.Name())
		}
	}
	return err
}

// below reports whether path is folder or lies in it. Both are clean and absolute.
func below(path, folder string) bool {
	return folder != "" && (path == folder || folder == "/" || strings.HasPrefix(path, folder+"/"))
}

// Below reports whether path is folder or lies in it, in the words of both.
func Below(path, folder string) bool { return below(filepath.Clean(path), filepath.Clean(folder)) }

// follow resolves the links of as much of a path as exists.
func follow(path string) string {
	if path == "" {
		return ""
	}
	path = filepath.Clean(path)
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(follow(parent), filepath.Base(path))
	}
	return path
}

// cause drops the operation and path that the os package puts before an error.
func cause(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// Source is a folder or file that passed the rules. It is held open, so that its number on the file system cannot go to
// another one until Close.
type Source struct {
	// Path has no links in it.
	Path string
	file *os.File
	info os.FileInfo
}

// ID identifies a file on this machine for as long as it exists: st_dev and st_ino.
type ID struct{ Dev, Ino uint64 }

// ID is the source's.
func (s *Source) ID() ID { return identify(s.info) }

// IsDir tells folders from files.
func (s *Source) IsDir() bool { return s.info.IsDir() }

// Close lets go of the source.
func (s *Source) Close() error { return s.file.Close() }
