package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

const (
	maxBinary       = 512 << 20
	maxRedirects    = 5
	downloadTimeout = 15 * time.Minute
	answerTimeout   = 30 * time.Second
)

// binaries stores downloads by the checksum of their content, which is verified on every write and read.
type binaries struct {
	dir    string
	client *http.Client
}

// SumError is the error for a program whose checksum is not the expected one.
type SumError struct{ Name, Source, Want, Got string }

func (e *SumError) Error() string {
	return fmt.Sprintf("binaries: %s from %s has sha256 %s, not %s: find out why before you change the checksum", e.Name, e.Source, e.Got, e.Want)
}

// downloader returns a client that follows few redirects, to https only.
func downloader(c *http.Client) *http.Client {
	mine := http.Client{}
	if c != nil {
		mine = *c
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.ResponseHeaderTimeout = answerTimeout
		transport.DisableKeepAlives = true // downloads are rare: keep no idle connection and no goroutine
		mine.Transport = transport
	}
	mine.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Scheme != "https":
			return fmt.Errorf("it redirects to %s, which is not https", r.URL.Redacted())
		case len(via) > maxRedirects:
			return fmt.Errorf("it redirects more than %d times", maxRedirects)
		}
		return nil
	}
	return &mine
}

// ensure downloads the program unless a verified copy exists.
func (s *binaries) ensure(ctx context.Context, b Binary) error {
	file, _, err := s.open(b)
	switch {
	case err == nil:
		return file.Close()
	case b.File != "":
		return err
	}
	// The stored file is missing or has changed.
	return s.download(ctx, b)
}

// open returns the program and its size, after verifying its checksum.
func (s *binaries) open(b Binary) (*os.File, int64, error) {
	path, source := b.File, b.File
	if b.URL != "" {
		path, source = filepath.Join(s.dir, b.SHA256), b.URL
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("binaries: %w", err)
	}
	size, got, err := sumOf(file)
	switch {
	case err != nil:
		err = fmt.Errorf("binaries: %s: %w", path, err)
	case got != b.SHA256:
		err = &SumError{Name: b.Name, Source: source, Want: b.SHA256, Got: got}
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, size, nil
}

// sumOf reads a file to its end and seeks back to its start.
func sumOf(file *os.File) (size int64, sha256Hex string, err error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return 0, "", err
	case info.Mode().Type() != 0:
		return 0, "", errors.New("not a regular file")
	case info.Size() > maxBinary:
		return 0, "", fmt.Errorf("larger than %d MiB", maxBinary>>20)
	}
	sum := sha256.New()
	if size, err = io.Copy(sum, io.LimitReader(file, maxBinary)); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	return size, hex.EncodeToString(sum.Sum(nil)), err
}

// KeepDownloads removes the downloads of all other binaries.
func (b *Builder) KeepDownloads(all []Binary) error {
	kept, err := os.ReadDir(b.store.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, file := range kept {
		if !slices.ContainsFunc(all, func(b Binary) bool { return b.SHA256 == file.Name() }) {
			err = errors.Join(err, os.Remove(filepath.Join(b.store.dir, file.Name())))
		}
	}
	return err
}

// download downloads the program to a temporary file, which is renamed once its checksum is verified.
func (s *binaries) download(ctx context.Context, b Binary) (err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("binaries: keep downloads: %w", err)
	}
	draft, err := os.CreateTemp(s.dir, "draft-*")
	if err != nil {
		return fmt.Errorf("binaries: keep downloads: %w", err)
	}
	defer func() {
		if left := os.Remove(draft.Name()); left != nil && !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
	}()
	got, err := s.transfer(ctx, b, draft)
	if err = errors.Join(err, draft.Close()); err != nil {
		return fmt.Errorf("binaries: download %s from %s: %w", b.Name, b.URL, err)
	}
	if got != b.SHA256 {
		return &SumError{Name: b.Name, Source: b.URL, Want: b.SHA256, Got: got}
	}
	return os.Rename(draft.Name(), filepath.Join(s.dir, b.SHA256))
}

// transfer copies the response and returns its checksum.
func (s *binaries) transfer(ctx context.Context, b Binary, to io.Writer) (string, error) {
	machine.Notice(ctx, "downloading "+b.Name)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL, nil)
	if err != nil {
		return "", err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the server says %s", answer.Status)
	case answer.ContentLength > maxBinary:
		return "", errTooLarge
	}
	sum := sha256.New()
	counted := &meter{total: answer.ContentLength, tell: func(text string) { machine.Notice(ctx, "downloading "+b.Name+": "+text) }}
	n, err := io.Copy(io.MultiWriter(to, sum, counted), io.LimitReader(answer.Body, maxBinary+1))
	if n > maxBinary {
		return "", errTooLarge
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxBinary>>20)

// meter reports the progress of a download for every mebibyte.
type meter struct {
	total, done, told int64
	tell              func(text string)
}

func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	if m.done-m.told >= 1<<20 {
		m.told = m.done
		text := fmt.Sprintf("%d MiB", m.done>>20)
		if m.total > 0 {
			text += fmt.Sprintf(" of %d MiB", (m.total+1<<20-1)>>20)
		}
		m.tell(text)
	}
	return len(p), nil
}
