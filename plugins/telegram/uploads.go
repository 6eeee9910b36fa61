package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
)

// spool keeps files between Upload and Send, by their digests: Telegram takes a file only along with its message. They stay a
// while, since a send may have to be repeated, and one file may go to several conversations.
type spool struct{ dir string }

const (
	maxFile    = 50 << 20  // bytes that Telegram takes of a bot
	maxPhoto   = 10 << 20  // bytes of a photo; a larger picture goes as a file
	maxSpool   = 512 << 20 // bytes of all files
	spoolTime  = 24 * time.Hour
	spoolFiles = 10_000
)

func openSpool(dir string) (*spool, error) {
	s := &spool{filepath.Join(dir, "uploads")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for uploads: %w", err)
	}
	return s, s.sweep(0)
}

// Upload implements channel.Uploader.
func (p *plugin) Upload(_ context.Context, m channel.Media) (string, error) {
	if m.Size > maxFile {
		return "", refuse("%d bytes, and Telegram takes %d of a bot", m.Size, maxFile)
	}
	return p.spool.put(m.Body, m.SHA256)
}

// refuse says that a file will never be taken.
func refuse(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, "upload: "+format, args...)
}

// put keeps what body holds and returns its handle.
func (s *spool) put(body io.Reader, want string) (handle string, err error) {
	if err := s.sweep(maxFile); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	defer os.Remove(f.Name()) // gone when it was renamed
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(body, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	switch {
	case n > maxFile:
		return "", refuse("more than the %d bytes that Telegram takes of a bot", maxFile)
	case n == 0:
		return "", refuse("Telegram takes no empty files")
	case want != "" && want != digest:
		return "", errors.New("upload: the bytes are not those of the digest")
	}
	if err := os.Rename(f.Name(), filepath.Join(s.dir, digest)); err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	return digest, nil
}

var validDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// open opens an uploaded file.
func (s *spool) open(handle string) (*os.File, int64, error) {
	if !validDigest.MatchString(handle) {
		return nil, 0, errors.New("the attachment was not uploaded")
	}
	f, err := os.Open(filepath.Join(s.dir, handle))
	if err != nil {
		return nil, 0, errors.New("the uploaded file is not there any more")
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// sweep removes what is old, and makes room for so many bytes, the oldest first.
func (s *spool) sweep(room int64) error {
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("look into the folder for uploads: %w", err)
	}
	var files []os.FileInfo
	total := room
	for _, entry := range list {
		info, err := entry.Info()
		if err != nil {
			continue // gone
		}
		if time.Since(info.ModTime()) > spoolTime {
			_ = os.Remove(filepath.Join(s.dir, info.Name()))
			continue
		}
		files, total = append(files, info), total+info.Size()
	}
	for (total > maxSpool || len(files) > spoolFiles) && len(files) > 0 {
		oldest := 0
		for i := range files {
			if files[i].ModTime().Before(files[oldest].ModTime()) {
				oldest = i
			}
		}
		_ = os.Remove(filepath.Join(s.dir, files[oldest].Name()))
		total -= files[oldest].Size()
		files = append(files[:oldest], files[oldest+1:]...)
	}
	return nil
}
