// Package mounts decides which folders and files of the host a sandbox may mount, and where.
//
// Start with Rules: Check decides about a source. Open does the same and keeps the source open, so that its caller can verify afterwards
// that this very folder was mounted. CheckTargets checks the mount points.
//
// Only folders below the roots that the owner lists may be mounted. Some are never allowed, whatever the roots: those of the system, of the
// engine, of Flynn itself, the store of any other Flynn, and the hidden folders of homes, which contain keys. Links are resolved before
// anything is decided. The package uses no engine and mounts nothing.
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

// Rules decide which sources are allowed. The zero value allows none.
type Rules struct {
	// Roots are absolute folders; a source is one of them or lies below one.
	Roots []string
	// RootsKey is the name of the configuration key for the roots; by default mount_roots of [sandbox].
	RootsKey string
	// Secret are further absolute paths that no source may be, contain or lie below: Flynn's own files, and the engine's socket and data.
	Secret []string
	// Hidden are absolute paths whose content must not get into images either: secrets, logins and conversations.
	Hidden []string
	// Home is the home folder of the user that Flynn runs as.
	Home string
}

// system returns the paths that are never allowed, in addition to those of Rules. The engines' data are among them: write access to those
// is write access to every container.
func system() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/run",
		"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/var/lib/rancher", "/var/spool/cron",
		"/Library", "/System", "/var/db", "/var/root", // of macOS
	}
}

// homes returns the folders that contain home folders.
func homes() []string { return []string{"/home", "/Users"} }

// Check returns the path of a folder or file without links, or an error if it may not be mounted.
func (r Rules) Check(source string) (resolved string, err error) {
	s, err := r.Open(source)
	if err != nil {
		return "", err
	}
	return s.Path, s.Close()
}

// Open checks a source like Check and keeps it open. Close it once it is mounted.
func (r Rules) Open(source string) (*Source, error) {
	if err := checkWords(source); err != nil {
		return nil, err
	}
	if len(r.Roots) == 0 {
		return nil, fmt.Errorf("%s is a folder of the host, and no root is configured: list its parent in %s", source, r.rootsKey())
	}
	s, err := open(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: create it, or correct source", source, cause(err))
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

// checkWords refuses a source that is not a plain path. A colon would separate options in other tools.
func checkWords(source string) error {
	switch {
	case strings.ContainsRune(source, ':'):
		return fmt.Errorf("%q contains a colon: write source, target and read_only as separate keys", source)
	case strings.ContainsFunc(source, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }):
		return fmt.Errorf("%q contains an unsuitable character: rename it", source)
	case !filepath.IsAbs(source):
		return fmt.Errorf("%q is not an absolute path: begin it with /", source)
	}
	return nil
}

// judge applies the rules to a path without links.
func (r Rules) judge(s *Source) error {
	path := s.Path
	switch {
	case !s.info.IsDir() && !s.info.Mode().IsRegular():
		return fmt.Errorf("%s, which is neither a folder nor a regular file: mount a folder with data instead", path)
	case !slices.ContainsFunc(r.Roots, func(root string) bool { return below(path, root) || below(path, follow(root)) }):
		return fmt.Errorf("%s, which is not below a folder of %s: add its parent there", path, r.rootsKey())
	}
	if secret, why := r.secret(path); secret != "" {
		return fmt.Errorf("%s, which %s: mount a folder with only the files that the sandbox needs", path, why)
	}
	if store, inside := storeAround(path); store != "" {
		why := "holds"
		if inside {
			why = "is or lies in"
		}
		return fmt.Errorf("%s, which %s %s, the store of a Flynn host: mount a folder with only the files that the sandbox needs", path, why, store)
	}
	if s.info.IsDir() {
		return checkSockets(path)
	}
	return nil
}

// secret returns the secret path that a mount of the path would show, and in which way.
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
		case below(home, "/Users") && below(path, home+"/Library"): // the keychains and the data of programs on macOS
			return path, "lies in the hidden folder Library of " + home
		}
	}
	return "", ""
}

// homesOf returns the home folders that a path lies in or contains, judging by its name.
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

// checkSockets refuses a folder that contains a socket: a read-only mount does not prevent connections to it. It does not look into
// subfolders; the known sockets of engines are refused at any depth.
func checkSockets(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s, which this user may not read: change its mode, or mount another folder", folder)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 {
			return fmt.Errorf("%s, which contains the socket %s of a server on the host: mount a folder without one", folder, e.Name())
		}
	}
	return err
}

// below reports whether path is folder or lies in it. Both are clean and absolute.
func below(path, folder string) bool {
	return folder != "" && (path == folder || folder == "/" || strings.HasPrefix(path, folder+"/"))
}

// Below reports whether path is folder or lies in it, without resolving links.
func Below(path, folder string) bool { return below(filepath.Clean(path), filepath.Clean(folder)) }

// follow resolves the links in the existing part of a path.
func follow(path string) string {
	if path == "" {
		return ""
	}
	path = filepath.Clean(path)
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return respelled(resolved)
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(follow(parent), filepath.Base(path))
	}
	return path
}

// cause returns the cause of an error of package os, without operation and path.
func cause(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// Source is a folder or file that the rules allow. It is kept open, so that its inode number cannot be reused until Close.
type Source struct {
	// Path contains no links.
	Path string
	file *os.File
	info os.FileInfo
}

// ID identifies an existing file on this machine: st_dev and st_ino.
type ID struct{ Dev, Ino uint64 }

// ID is the source's.
func (s *Source) ID() ID { return identify(s.info) }

// IsDir reports whether the source is a folder.
func (s *Source) IsDir() bool { return s.info.IsDir() }

// Close lets go of the source.
func (s *Source) Close() error { return s.file.Close() }
