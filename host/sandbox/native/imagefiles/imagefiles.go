// Package imagefiles provides the files of an image without an engine: those of a folder, or those of an archive that docker save made, which
// it unpacks once.
//
// Start with Store.Open. An archive is hostile: archive.go reads what it says of itself, and layers.go unpacks its layers through an os.Root,
// within Limits. Owners, devices and extended attributes are left out, since all files become the calling user's. A folder is used as it is.
package imagefiles

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/removeall"
)

// Limits bound an archive. Zero fields stand for the defaults.
type Limits struct {
	Bytes   int64 // of all files of all layers, unpacked; 16 GiB by default
	Entries int   // of all layers; 1,000,000 by default
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Bytes, 16<<30), cmp.Or(l.Entries, 1_000_000)}
}

// Image is the files of an image.
type Image struct {
	Root string
	// Env are the variables that the image sets, "NAME=value".
	Env []string
}

// Store unpacks archives into folders, which are named by a digest of the archive. Its methods are safe for concurrent use.
type Store struct {
	folder string
	limits Limits

	mu    sync.Mutex // held while an archive is read
	known map[archiveFile]string
}

// archiveFile identifies the content of an archive as long as nobody writes to it.
type archiveFile struct {
	path     string
	size     int64
	modified time.Time
}

// New returns a Store that keeps unpacked archives in a folder, which it makes when it needs it.
func New(folder string, limits Limits) *Store {
	return &Store{folder: folder, limits: limits.withDefaults(), known: map[archiveFile]string{}}
}

// Names of what an unpacked archive consists of. draftPrefix begins the name of one that is not complete.
const (
	rootName    = "root"
	aboutName   = "image.json"
	draftPrefix = ".draft-"
)

// Open returns the files of a folder or an archive.
func (s *Store) Open(ctx context.Context, path string) (Image, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Image{}, fmt.Errorf("image %q of [sandbox]: %w: name a folder with the files of an image, or an archive that docker save made", path, cause(err))
	case info.IsDir():
		root, err := filepath.EvalSymlinks(path)
		return Image{Root: root}, err
	case !info.Mode().IsRegular():
		return Image{}, fmt.Errorf("image %q of [sandbox] is neither a folder nor an archive: make one with docker save", path)
	}
	image, err := s.unpacked(ctx, path, info)
	if err != nil {
		return Image{}, fmt.Errorf("image %q of [sandbox]: %w", path, err)
	}
	return image, nil
}

// unpacked returns the files of an archive, which it unpacks unless that was done before.
func (s *Store) unpacked(ctx context.Context, path string, info fs.FileInfo) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := archiveFile{path, info.Size(), info.ModTime()}
	digest, known := s.known[is]
	if !known {
		var err error
		if digest, err = digestOf(ctx, path); err != nil {
			return Image{}, err
		}
	}
	folder := filepath.Join(s.folder, digest)
	image, err := read(folder)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.unpack(ctx, path, folder); err == nil {
			image, err = read(folder)
		}
	}
	if err == nil {
		s.known[is] = digest
	}
	return image, err
}

// read returns an unpacked archive.
func read(folder string) (Image, error) {
	image := Image{Root: filepath.Join(folder, rootName)}
	text, err := os.ReadFile(filepath.Join(folder, aboutName))
	if err == nil {
		err = json.Unmarshal(text, &image.Env)
	}
	return image, err
}

// unpack makes the folder of an archive. It appears when it is complete.
func (s *Store) unpack(ctx context.Context, path, folder string) (err error) {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	s.removeDrafts()
	draft, err := os.MkdirTemp(s.folder, draftPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeall.Folder(draft))
		}
	}()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	a, err := readArchive(file)
	if err != nil {
		return err
	}
	if err := a.unpack(ctx, filepath.Join(draft, rootName), s.limits); err != nil {
		return err
	}
	about, err := json.Marshal(a.env)
	if err == nil {
		err = os.WriteFile(filepath.Join(draft, aboutName), about, 0o600)
	}
	if err == nil {
		err = os.Rename(draft, folder)
	}
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return removeall.Folder(draft)
	}
	return err
}

// draftAge is longer than an archive takes to unpack.
const draftAge = 24 * time.Hour

// removeDrafts removes what processes have left that were killed while they unpacked.
func (s *Store) removeDrafts() {
	drafts, _ := filepath.Glob(filepath.Join(s.folder, draftPrefix+"*"))
	for _, d := range drafts {
		if info, err := os.Lstat(d); err == nil && time.Since(info.ModTime()) > draftAge {
			_ = removeall.Folder(d)
		}
	}
}

// digestOf returns a digest of a file.
func digestOf(ctx context.Context, path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, &cancelled{ctx, file}); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// cancelled is a reader that ends with a context.
type cancelled struct {
	ctx context.Context
	src io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.src.Read(p)
}

// cause returns the cause of an error of package os, without operation and path.
func cause(err error) error {
	if perr := (*fs.PathError)(nil); errors.As(err, &perr) {
		return perr.Err
	}
	return err
}
