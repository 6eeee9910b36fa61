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

// zip reads an archive whose table of contents is at its end, so that it has to be kept in a file first.
func (p *repacker) zip(src io.Reader, packed *packedReader) error {
	spool, err := os.CreateTemp("", "flynn-zip-*")
	if err != nil {
		return fmt.Errorf("keep the archive: %w", err)
	}
	defer spool.Close()
	if err := os.Remove(spool.Name()); err != nil { // the open file is all that is needed
		return fmt.Errorf("keep the archive: %w", err)
	}
	heads := &headCounter{max: p.limits.Entries}
	size, err := io.Copy(io.MultiWriter(spool, heads), src)
	if err != nil {
		if packed.err != nil || errors.Is(err, ErrRefused) {
			return err
		}
		return fmt.Errorf("keep the archive: %w", err)
	}
	archive, err := zip.NewReader(spool, size)
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
		// Entries may share one piece of the file, so what counts is the whole.
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
	// Only at its end an entry's checksum is compared.
	n, err := io.Copy(io.Discard, io.LimitReader(content, 1))
	if n > 0 && r.Type() == frame.TypeFile {
		err = errors.New("it is longer than it says")
	}
	if err != nil {
		return refuse(f.Name, err)
	}
	return nil
}

// headCounter refuses a zip that has the mark of an entry in it more often than entries are allowed. It comes before the
// table is read, because that is kept in memory as a whole, and believes nothing that the table says about itself.
type headCounter struct {
	max int
	n   int
	buf []byte // begins with the last bytes of what came before, in which a mark may begin
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

// zipRecord is the record of a zip's entry. A link's target is its content.
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
