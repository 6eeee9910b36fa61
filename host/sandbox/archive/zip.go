package archive

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// zip reads a zip archive. Its table of contents is at the end, so the archive is first copied to a temporary file.
func (p *repacker) zip(src io.Reader, packed *packedReader) error {
	file, err := os.CreateTemp("", "flynn-zip-*")
	if err != nil {
		return fmt.Errorf("keep the archive: %w", err)
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil { // the open file is enough
		return fmt.Errorf("keep the archive: %w", err)
	}
	heads := &headCounter{max: p.limits.Entries}
	size, err := io.Copy(io.MultiWriter(file, heads), src)
	if err != nil {
		if packed.err != nil || errors.Is(err, ErrRefused) {
			return err
		}
		return fmt.Errorf("keep the archive: %w", err)
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return refuse("", err)
	}
	return p.zipEntries(archive, packed)
}

func (p *repacker) zipEntries(archive *zip.Reader, packed *packedReader) error {
	var unpacked int64
	for _, f := range archive.File {
		r, err := zipRecord(f)
		if err != nil {
			return refuse(f.Name, err)
		}
		// Entries may share a piece of the file, so the ratio is checked for the whole.
		if unpacked += r.Size; unpacked > ratioFree && unpacked/p.limits.Ratio > packed.n {
			return refuse("", fmt.Errorf("it grows to more than %d times its size", p.limits.Ratio))
		}
		if err := p.zipEntry(f, r, packed); err != nil {
			return err
		}
	}
	return nil
}

func (p *repacker) zipEntry(f *zip.File, r frame.Record, packed *packedReader) error {
	if r.Type() == frame.TypeFolder {
		_, err := p.entry(f.Name, r, nil, packed)
		return err
	}
	content, err := f.Open()
	if err != nil {
		return refuse(f.Name, err)
	}
	defer content.Close()
	if r.Type() == frame.TypeLink {
		if r.Link, err = io.ReadAll(io.LimitReader(content, frame.MaxPath+1)); err != nil {
			return refuse(f.Name, err)
		}
	}
	if written, err := p.entry(f.Name, r, content, packed); err != nil || !written {
		return err
	}
	// The checksum of an entry is compared at its end only.
	n, err := io.Copy(io.Discard, io.LimitReader(content, 1))
	if n > 0 && r.Type() == frame.TypeFile {
		err = errors.New("it is longer than it says")
	}
	if err != nil {
		return refuse(f.Name, err)
	}
	return nil
}

// headCounter refuses a zip that contains the signature of an entry more often than entries are allowed. It runs before the table of
// contents is read, because archive/zip keeps that in memory as a whole, and trusts nothing that the table says.
type headCounter struct {
	max int
	n   int
	buf []byte // starts with the last bytes of the previous write, in which a signature may begin
}

const zipHead = "PK\x01\x02"

func (c *headCounter) Write(p []byte) (int, error) {
	c.buf = append(c.buf, p...)
	c.n += bytes.Count(c.buf, []byte(zipHead))
	kept := min(len(c.buf), len(zipHead)-1)
	c.buf = append(c.buf[:0], c.buf[len(c.buf)-kept:]...)
	if c.n > c.max {
		return 0, refuse("", fmt.Errorf("more than %d entries", c.max))
	}
	return len(p), nil
}

// zipRecord returns the record of a zip's entry. The target of a link is its content.
func zipRecord(f *zip.File) (frame.Record, error) {
	mode := f.Mode()
	r := frame.Record{Mode: uint32(mode.Perm()), Mtime: mtime(f.Modified)}
	switch {
	case f.Flags&1 != 0:
		return r, errors.New("it is encrypted")
	case f.UncompressedSize64 > 1<<62:
		return r, errors.New("its size is impossible")
	case mode.IsDir() || strings.HasSuffix(f.Name, "/"):
		r.Mode = folderBits(r.Mode)
	case mode.Type() == fs.ModeSymlink:
		r.Mode = frame.TypeLink
	case mode.IsRegular():
		r.Mode, r.Size = fileBits(r.Mode), int64(f.UncompressedSize64)
	default:
		return r, fmt.Errorf("it is neither file, folder nor link (%v)", mode.Type())
	}
	return r, nil
}
