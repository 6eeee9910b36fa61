// Package archive writes and reads archives of folders.
//
// Start with Writer and Read. It writes .tar.gz, with the same bytes for the same files, and reads .tar.gz and .zip. Archives are
// untrusted: Read accepts only regular files, each once, with names that stay inside the folder, and enforces its bounds, whatever the
// headers say. It does not write to the disk: package folder does.
package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/install/folder"
)

// maxName bounds the name of a file, in bytes.
const maxName = 256

// File is one file of an archive.
type File struct {
	Name    string // slash-separated
	Program bool   // is executable
	Content io.Reader
}

// Writer makes an archive.
type Writer struct {
	zip *gzip.Writer
	tar *tar.Writer
}

// NewWriter starts an archive.
func NewWriter(w io.Writer) *Writer {
	zip, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // cannot fail for a valid level
	return &Writer{zip, tar.NewWriter(zip)}
}

// Write adds a file of size bytes. The archive keeps only Program of its mode, and none of its times.
func (w *Writer) Write(f File, size int64) error {
	mode := int64(0o644)
	if f.Program {
		mode = 0o755
	}
	err := w.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: f.Name, Size: size, Mode: mode, ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	})
	if err == nil {
		_, err = io.CopyN(w.tar, f.Content, size)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", f.Name, err)
	}
	return nil
}

// Close finishes the archive.
func (w *Writer) Close() error { return errors.Join(w.tar.Close(), w.zip.Close()) }

// Pack writes every file of a folder that is not hidden.
func (w *Writer) Pack(d *folder.Folder) error {
	return d.Each(func(name string, f *os.File, info fs.FileInfo) error {
		return w.Write(File{name, folder.Program(info.Mode()), f}, info.Size())
	})
}

// Source is an archive to read: a file, or a bytes.Reader.
type Source interface {
	io.ReadSeeker
	io.ReaderAt
}

// Read calls take with the files of an archive, .tar.gz or .zip by its first bytes, one after the other. It stops at the first error.
func Read(from Source, max folder.Bounds, take func(File) error) error {
	size, err := from.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = from.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if size > max.Bytes {
		return fmt.Errorf("the archive has %d bytes, at most %d", size, max.Bytes)
	}
	in := &reading{max: max, left: max.Bytes, seen: map[string]bool{}, take: take}
	var head [4]byte
	_, _ = from.ReadAt(head[:], 0)
	switch {
	case string(head[:2]) == "\x1f\x8b":
		return in.tarGzip(from)
	case string(head[:]) == "PK\x03\x04":
		return in.zip(from, size)
	}
	return errors.New("it is neither a .tar.gz nor a .zip archive")
}

// reading is the state of Read.
type reading struct {
	max  folder.Bounds
	left int64 // of max.Bytes
	seen map[string]bool
	take func(File) error
}

// tarGzip reads to the end, so that the checksum is checked. It bounds headers and padding as well.
func (r *reading) tarGzip(from io.Reader) error {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	most := r.max.Bytes + int64(r.max.Files)*1024 + 1<<20
	all := &io.LimitedReader{R: packed, N: most + 1}
	err = r.tar(tar.NewReader(all))
	if err == nil {
		_, err = io.Copy(io.Discard, all)
	}
	if all.N <= 0 {
		return fmt.Errorf("it unpacks to more than %d bytes", most)
	}
	return err
}

func (r *reading) tar(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = r.file(h.Name, fs.FileMode(h.Mode), in)
		case tar.TypeDir, tar.TypeXGlobalHeader:
		default:
			err = notRegular(h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func notRegular(name string) error {
	return fmt.Errorf("%.100q is not a regular file: there may be only files and folders", name)
}

func (r *reading) zip(from io.ReaderAt, size int64) error {
	in, err := zip.NewReader(from, size)
	if err != nil {
		return err
	}
	if len(in.File) > 2*r.max.Files {
		return fmt.Errorf("there are more than %d files", r.max.Files)
	}
	for _, f := range in.File {
		mode := f.Mode()
		if mode.IsDir() {
			continue
		}
		if !mode.IsRegular() {
			return notRegular(f.Name)
		}
		content, err := f.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(r.file(f.Name, mode, content), content.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) file(name string, mode fs.FileMode, content io.Reader) error {
	name = strings.TrimPrefix(name, "./")
	switch {
	case len(name) > maxName || !folder.Portable(name):
		return fmt.Errorf("%.100q is not a name that a file can have here", name)
	case r.seen[name]:
		return fmt.Errorf("%s is there twice", name)
	case len(r.seen) == r.max.Files:
		return fmt.Errorf("there are more than %d files", r.max.Files)
	}
	r.seen[name] = true
	bounded := &io.LimitedReader{R: content, N: r.left + 1}
	err := r.take(File{name, folder.Program(mode), bounded})
	if r.left = bounded.N - 1; r.left < 0 {
		return fmt.Errorf("there are more than %d bytes", r.max.Bytes)
	}
	return err
}
