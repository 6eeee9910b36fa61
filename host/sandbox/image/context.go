package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// Limits of a build context.
const (
	maxContext = 1 << 30 // bytes
	maxEntries = 200_000
)

// ignoreFile is looked for in the context. A Dockerfile may have its own beside it, named after it with this suffix, which is used instead.
const ignoreFile = ".dockerignore"

// buildSource is a Dockerfile and its context, as read.
type buildSource struct {
	dir        string
	text       []byte // of the Dockerfile
	dockerfile string // its name in the context that is sent
	bases      []string
	entries    []entry
	digest     []byte // of the entries and their content
}

// entry is one file, folder or link of the context.
type entry struct {
	path    string // slashes, relative
	mode    fs.FileMode
	size    int64
	mtime   time.Time
	link    string
	content []byte // set if it differs from the file's
}

// readSource reads the Dockerfile and everything that is sent to the engine.
func readSource(ctx context.Context, r Recipe, hidden []string) (*buildSource, error) {
	text, err := readBounded(r.Dockerfile, maxDockerfile)
	if err != nil {
		return nil, fmt.Errorf("read dockerfile: %w", err)
	}
	s := &buildSource{dir: r.folder(), text: text}
	if s.bases, err = basesOf(text, r.Network); err != nil {
		return nil, fmt.Errorf("read dockerfile %s: %w", r.Dockerfile, err)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("read build context: %w", err)
	}
	defer root.Close()
	ignored, err := readIgnore(root, r.Dockerfile+ignoreFile)
	if err == nil {
		err = s.list(ctx, root, ignored, hidden)
	}
	if err != nil {
		return nil, fmt.Errorf("read build context %s: %w", s.dir, err)
	}
	s.addDockerfile(r.Dockerfile)
	if s.digest, err = s.pack(ctx, io.Discard); err != nil {
		return nil, fmt.Errorf("read build context %s: %w", s.dir, err)
	}
	return s, nil
}

func readBounded(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return text, err
}

// list finds the entries that .dockerignore does not exclude, except hidden ones.
func (s *buildSource) list(ctx context.Context, root *os.Root, ignored *patternmatcher.PatternMatcher, hidden []string) error {
	hiding, err := hiddenIn(s.dir, hidden)
	if err != nil {
		return err
	}
	l := lister{root: root, ignored: ignored, hidden: hiding, listed: map[string]bool{".": true}}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || name == "." {
			return err
		}
		return l.visit(name, d)
	})
	s.entries = l.entries
	slices.SortFunc(s.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return err
}

func readIgnore(root *os.Root, own string) (*patternmatcher.PatternMatcher, error) {
	var patterns []string
	file, err := os.Open(own)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = root.Open(ignoreFile)
	}
	switch {
	case err == nil:
		defer file.Close()
		if patterns, err = ignorefile.ReadAll(io.LimitReader(file, maxDockerfile)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignoreFile, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ignoreFile, err)
	}
	return matcher, nil
}

// hiddenIn returns the hidden paths below a folder, relative to it. A folder inside a hidden path is refused.
func hiddenIn(dir string, hidden []string) (map[string]bool, error) {
	dir = resolved(dir)
	for at := dir; ; at = filepath.Dir(at) {
		if mounts.IsStore(os.DirFS(at), ".") {
			return nil, fmt.Errorf("it lies in %s, the store of a Flynn host, which must not get into images: copy the files that the build needs elsewhere", at)
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	names := map[string]bool{}
	for _, path := range hidden {
		path = resolved(path)
		if up, err := filepath.Rel(path, dir); err == nil && filepath.IsLocal(up) {
			return nil, fmt.Errorf("it lies in %s, which must not get into images: copy the files that the build needs elsewhere", path)
		}
		if name, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(name) {
			names[filepath.ToSlash(name)] = true
		}
	}
	return names, nil
}

// resolved resolves the links in the part of a path that exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// lister collects entries.
type lister struct {
	root    *os.Root
	ignored *patternmatcher.PatternMatcher
	hidden  map[string]bool
	entries []entry
	listed  map[string]bool // folders
	bytes   int64
	seen    int
}

func (l *lister) visit(name string, d fs.DirEntry) error {
	if l.seen++; l.seen > 10*maxEntries {
		return errTooMany
	}
	if l.hidden[name] || d.IsDir() && mounts.IsStore(l.root.FS(), name) {
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	skip, err := l.ignored.MatchesOrParentMatches(name)
	if err != nil {
		return err
	}
	switch {
	case !skip:
		return l.add(name)
	case d.IsDir() && !l.ignored.Exclusions():
		return fs.SkipDir
	}
	return nil // an exception may match below it
}

var errTooMany = fmt.Errorf("more than %d files: list those that the build does not need in %s", maxEntries, ignoreFile)

// add appends an entry, preceded by its parents: those of an exception may be ignored themselves.
func (l *lister) add(name string) error {
	if dir := path.Dir(name); !l.listed[dir] {
		if err := l.add(dir); err != nil {
			return err
		}
	}
	if l.listed[name] {
		return nil
	}
	info, err := l.root.Lstat(name)
	if err != nil {
		return err
	}
	e := entry{path: name, mode: info.Mode(), mtime: info.ModTime()}
	switch e.mode.Type() {
	case 0:
		e.size = info.Size()
	case fs.ModeDir:
		l.listed[name] = true
	case fs.ModeSymlink:
		if e.link, err = l.root.Readlink(name); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is not a file, folder or link: list it in %s", name, ignoreFile)
	}
	l.bytes += e.size
	l.entries = append(l.entries, e)
	switch {
	case l.bytes > maxContext:
		return fmt.Errorf("more than %d MiB: list files that the build does not need in %s", maxContext>>20, ignoreFile)
	case len(l.entries) > maxEntries:
		return errTooMany
	}
	return nil
}

// addDockerfile adds the Dockerfile as it was read. If it is outside of the context or ignored, it is sent under another name, which
// .dockerignore then excludes from the image.
func (s *buildSource) addDockerfile(file string) {
	if name, err := filepath.Rel(s.dir, file); err == nil {
		i := slices.IndexFunc(s.entries, func(e entry) bool { return e.path == filepath.ToSlash(name) })
		if i >= 0 && s.entries[i].mode.IsRegular() {
			s.dockerfile = s.entries[i].path
			s.entries[i].content, s.entries[i].size = s.text, int64(len(s.text))
			return
		}
	}
	s.dockerfile = ".flynn.dockerfile"
	for slices.ContainsFunc(s.entries, func(e entry) bool { return e.path == s.dockerfile }) {
		s.dockerfile += "-"
	}
	s.add(entry{path: s.dockerfile, mode: 0o644, size: int64(len(s.text)), content: s.text})
	s.addIgnore()
}

// addIgnore adds a .dockerignore that excludes the Dockerfile, and itself if there was none.
func (s *buildSource) addIgnore() {
	text, err := readBounded(filepath.Join(s.dir, ignoreFile), maxDockerfile)
	if err != nil {
		text = []byte(ignoreFile)
	}
	text = append(text, "\n"+s.dockerfile+"\n"...)
	s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return e.path == ignoreFile })
	s.add(entry{path: ignoreFile, mode: 0o644, size: int64(len(text)), content: text})
}

func (s *buildSource) add(e entry) {
	i, _ := slices.BinarySearchFunc(s.entries, e.path, func(e entry, path string) int { return strings.Compare(e.path, path) })
	s.entries = slices.Insert(s.entries, i, e)
}

// pack writes the context as a tar and returns the digest of its content.
func (s *buildSource) pack(ctx context.Context, w io.Writer) ([]byte, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out, sum := tar.NewWriter(w), sha256.New()
	for _, e := range s.entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := e.pack(root, out, sum); err != nil {
			return nil, fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return sum.Sum(nil), out.Close()
}

func (e entry) pack(root *os.Root, out *tar.Writer, sum hash.Hash) error {
	h, err := tar.FileInfoHeader(headerInfo{e}, e.link)
	if err != nil {
		return err
	}
	h.Name, h.ModTime = e.path, e.mtime
	if e.mode.IsDir() {
		h.Name += "/"
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	// Not the time: a fresh checkout is the same context.
	for _, word := range []string{h.Name, e.link} {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(word))))
		sum.Write([]byte(word))
	}
	sum.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(e.mode)), uint64(e.size)))
	if !e.mode.IsRegular() {
		return nil
	}
	return e.copy(root, io.MultiWriter(out, sum))
}

// copy writes exactly the announced content.
func (e entry) copy(root *os.Root, to io.Writer) error {
	if e.content != nil {
		_, err := io.Copy(to, bytes.NewReader(e.content))
		return err
	}
	// O_NONBLOCK, because the file may have become a FIFO.
	file, err := root.OpenFile(e.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != e.size {
		return errors.Join(err, errChanged)
	}
	if n, err := io.CopyN(to, file, e.size); n < e.size {
		return errors.Join(err, errChanged)
	}
	return nil
}

var errChanged = errors.New("it changed while it was read: try again")

// headerInfo describes an entry for the tar, without the file's owner.
type headerInfo struct{ e entry }

func (i headerInfo) Name() string       { return path.Base(i.e.path) }
func (i headerInfo) Size() int64        { return i.e.size }
func (i headerInfo) Mode() fs.FileMode  { return i.e.mode }
func (i headerInfo) ModTime() time.Time { return i.e.mtime }
func (i headerInfo) IsDir() bool        { return i.e.mode.IsDir() }
func (i headerInfo) Sys() any           { return nil }
