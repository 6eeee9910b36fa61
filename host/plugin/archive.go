package plugin

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Bounds on an archive: as it comes, and what it may grow to with headers and padding.
const (
	maxPacked   = maxBytes
	maxUnpacked = maxBytes + maxFiles*1024 + 1<<20
	maxNameSize = 256 // bytes of one file's name in it
)

// Pack writes the plugin in dir as one archive, tar within gzip, with every platform's program. The same files make the same bytes.
func Pack(dir string, w io.Writer) (Manifest, error) {
	m, files, err := survey(dir)
	if err != nil {
		return m, fmt.Errorf("pack %s: %w", dir, err)
	}
	if _, err := signerOf(dir, files); err != nil {
		return m, fmt.Errorf("pack %s: %w", dir, err)
	}
	t, err := openTree(dir)
	if err != nil {
		return m, err
	}
	defer t.close()
	if err := t.pour(w); err != nil {
		return m, fmt.Errorf("pack %s: %w", dir, err)
	}
	return m, nil
}

// pour writes every file into an archive.
func (t *tree) pour(w io.Writer) error {
	names, err := t.files(true)
	if err != nil {
		return err
	}
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(packed)
	for _, name := range names {
		if err := t.pourFile(out, name); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), packed.Close())
}

func (t *tree) pourFile(out *tar.Writer, name string) error {
	f, err := t.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = out.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: modeOf(info.Mode()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	})
	if err == nil {
		_, err = io.CopyN(out, f, info.Size())
	}
	return err
}

// unpack writes the files of an archive, .tar.gz or .zip by its first bytes, into an empty folder. It takes regular files under names
// that stay inside, each once, and folders; anything else is refused, links above all.
func unpack(archive *os.File, dir string) error {
	info, err := archive.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxPacked {
		return fmt.Errorf("the archive has %d bytes, at most %d", info.Size(), int64(maxPacked))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	into := &unpacking{root: root, left: maxBytes}
	var head [4]byte
	_, _ = archive.ReadAt(head[:], 0)
	switch {
	case string(head[:2]) == "\x1f\x8b":
		return into.tarGzip(archive)
	case string(head[:]) == "PK\x03\x04":
		return into.zip(archive, info.Size())
	}
	return errors.New("it is neither a .tar.gz nor a .zip archive")
}

// unpacking is an archive on its way to the disk.
type unpacking struct {
	root  *os.Root
	files int
	left  int64  // of maxBytes
	top   string // the one folder that everything lies in, "" when there is none
	begun bool
}

func (u *unpacking) tarGzip(r io.Reader) error {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	bounded := &io.LimitedReader{R: packed, N: maxUnpacked + 1}
	in := tar.NewReader(bounded)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return unpackError(bounded, err)
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = u.file(h.Name, fs.FileMode(h.Mode), in)
		case tar.TypeDir, tar.TypeXGlobalHeader:
		default:
			err = fmt.Errorf("%.100q is not a regular file: a plugin holds only files and folders", h.Name)
		}
		if err != nil {
			return unpackError(bounded, err)
		}
	}
	_, err = io.Copy(io.Discard, bounded) // to the checksum
	return unpackError(bounded, err)
}

func unpackError(r *io.LimitedReader, err error) error {
	if r.N <= 0 {
		return fmt.Errorf("it unpacks to more than %d bytes", int64(maxUnpacked))
	}
	return err
}

func (u *unpacking) zip(r io.ReaderAt, size int64) error {
	in, err := zip.NewReader(r, size)
	if err != nil {
		return err
	}
	if len(in.File) > 2*maxFiles {
		return fmt.Errorf("there are more than %d files", maxFiles)
	}
	for _, f := range in.File {
		mode := f.Mode()
		if mode.IsDir() {
			continue
		}
		if !mode.IsRegular() {
			return fmt.Errorf("%.100q is not a regular file: a plugin holds only files and folders", f.Name)
		}
		content, err := f.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(u.file(f.Name, mode, content), content.Close()); err != nil {
			return err
		}
	}
	return nil
}

// file writes one file. A name that is there already is refused, and so is every name under it.
func (u *unpacking) file(name string, mode fs.FileMode, content io.Reader) error {
	name = strings.TrimPrefix(name, "./")
	if len(name) > maxNameSize || !localFile(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%.100q is not a name that a plugin's file can have", name)
	}
	if u.files++; u.files > maxFiles {
		return fmt.Errorf("there are more than %d files", maxFiles)
	}
	if top, _, ok := strings.Cut(name, "/"); !u.begun && ok {
		u.top = top
	} else if !ok || top != u.top {
		u.top = ""
	}
	u.begun = true
	name = filepath.FromSlash(name)
	if err := u.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(modeOf(mode))&0o700)
	if err != nil {
		return err
	}
	_, err = copyDigest(out, content, &u.left)
	return errors.Join(err, out.Close())
}
