package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

func (p *repacker) gzip(src io.Reader, packed *packedReader) error {
	unpacked, err := gzip.NewReader(src)
	if err != nil {
		return packed.blame("", err)
	}
	return p.tar(&ratioReader{src: unpacked, packed: packed, ratio: p.limits.Ratio}, packed)
}

func (p *repacker) tar(src io.Reader, packed *packedReader) error {
	archive := tar.NewReader(src)
	for {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, tar.ErrHeader):
			return packed.blame("", fmt.Errorf("it is not a tar, tar.gz or zip: %w", err))
		case err != nil:
			return packed.blame("", err)
		case h.Typeflag == tar.TypeXGlobalHeader: // git writes the commit there
			continue
		}
		r, err := tarRecord(h)
		if err != nil {
			return refuse(h.Name, err)
		}
		if _, err := p.entry(h.Name, r, archive, packed); err != nil {
			return err
		}
	}
}

func tarRecord(h *tar.Header) (frame.Record, error) {
	r := frame.Record{Mode: uint32(h.Mode), Mtime: mtime(h.ModTime)}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		r.Mode, r.Size = fileBits(r.Mode), h.Size
	case tar.TypeDir:
		r.Mode = folderBits(r.Mode)
	case tar.TypeSymlink:
		r.Mode, r.Link = frame.TypeLink, []byte(h.Linkname)
	case tar.TypeLink:
		target, err := cleanName(h.Linkname)
		r.Mode, r.Link = fileBits(r.Mode), []byte(target)
		return r, err
	default:
		return r, fmt.Errorf("it is neither file, folder nor link (type %q)", h.Typeflag)
	}
	return r, nil
}

// TarWriter writes records as a tar.
type TarWriter struct{ tar *tar.Writer }

// NewTarWriter returns a TarWriter to w.
func NewTarWriter(w io.Writer) TarWriter { return TarWriter{tar.NewWriter(w)} }

// Close ends the tar; an unclosed tar is invalid.
func (t TarWriter) Close() error { return t.tar.Close() }

// Write adds an entry; content is that of a file and no longer than its record says.
func (t TarWriter) Write(r frame.Record, content io.Reader) error {
	h := &tar.Header{Name: string(r.Path), Mode: int64(r.Mode & 0o777), ModTime: time.Unix(0, r.Mtime), Typeflag: tar.TypeReg, Size: r.Size}
	switch r.Type() {
	case frame.TypeFolder:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case frame.TypeLink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(r.Link)
	}
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t.tar, content)
	return err
}
