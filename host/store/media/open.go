package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/message"
	"github.com/gabriel-vasile/mimetype"
)

// Open reads media. The reader returns ErrCorrupt instead of io.EOF if the bytes do not match the digest; a caller that uses bytes
// before the end must be able to undo that.
func (s *Store) Open(ctx context.Context, digest string) (io.ReadCloser, Info, error) {
	info, f, err := s.open(ctx, digest)
	if err != nil {
		return nil, Info{}, fmt.Errorf("open media: %w", err)
	}
	return &checked{store: s, file: f, digest: digest, sum: sha256.New()}, info, nil
}

// Touch returns the Info of media, and keeps it for at least another Grace.
func (s *Store) Touch(ctx context.Context, digest string) (Info, error) {
	if err := s.touch(digest); err != nil {
		return Info{}, fmt.Errorf("touch media: %w", err)
	}
	info, f, err := s.open(ctx, digest)
	if err != nil {
		return Info{}, fmt.Errorf("touch media: %w", err)
	}
	return info, f.Close()
}

func (s *Store) touch(digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[digest]
	if e == nil || e.room == 0 {
		return ErrNotFound
	}
	e.touched = s.config.Now()
	return os.Chtimes(s.path(digest), e.touched, e.touched)
}

func (s *Store) open(ctx context.Context, digest string) (Info, *os.File, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, nil, err
	}
	if !validDigest(digest) {
		return Info{}, nil, ErrNotFound
	}
	f, err := os.Open(s.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, nil, ErrNotFound
	}
	if err != nil {
		return Info{}, nil, err
	}
	info, err := s.describe(f, digest)
	if err != nil {
		_ = f.Close()
	}
	return info, f, err
}

// describe returns the Info of media. Without a readable head only the name is lost.
func (s *Store) describe(f *os.File, digest string) (Info, error) {
	stat, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	info := Info{Digest: digest, Size: stat.Size(), Put: stat.ModTime()}
	if h := readHead(s.path(digest)); h.Detected != "" {
		info.Detected, info.Claimed, info.Name = h.Detected, h.Claimed, h.Name
		return info, nil
	}
	first := make([]byte, detectFrom)
	n, err := f.ReadAt(first, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Info{}, err
	}
	info.Detected = mimetype.Detect(first[:n]).String()
	return info, nil
}

// Owned returns the bytes of each owner's media in a store's folder, which another process may have open. "" counts media without an
// owner.
func Owned(dir string) map[message.SenderKey]int64 {
	owned := map[message.SenderKey]int64{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !validDigest(d.Name()) {
			return nil // count what is readable
		}
		if info, err := d.Info(); err == nil {
			e := entry{owners: readHead(path).Owners}
			for _, o := range e.ownedBy() {
				owned[o] += room(info.Size())
			}
		}
		return nil
	})
	return owned
}

// checked compares what is read with the digest.
type checked struct {
	store  *Store
	file   *os.File
	digest string
	sum    hash.Hash
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.sum.Sum(nil)) != c.digest {
		c.store.discard(c.digest)
		return n, fmt.Errorf("read media %.12s: %w", c.digest, ErrCorrupt)
	}
	return n, err
}

// Close implements io.Closer.
func (c *checked) Close() error { return c.file.Close() }

// discard removes a damaged object, so that it can be stored again.
func (s *Store) discard(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[digest]; e != nil && e.room > 0 && e.pins == 0 {
		s.log.Error("removed a damaged file from the media store", "digest", digest)
		_ = s.remove(digest, e)
	}
}
