package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxPacked bounds an archive as it comes, maxUnpacked what it may grow to, padding and headers included.
const (
	maxPacked   = maxBytes
	maxUnpacked = maxBytes + maxFiles*1024 + 1<<20
)

// Pack writes the package as one archive, tar within gzip. The same package makes the same bytes, on every machine.
func (p *Package) Pack(w io.Writer) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	for _, name := range p.names() {
		content := p.files[name]
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := out.Write(content); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return errors.Join(out.Close(), zip.Close())
}

// Unpack reads an archive. Nothing of it reaches the disk.
func Unpack(r io.Reader) (*Package, error) {
	packed := &io.LimitedReader{R: r, N: maxPacked + 1}
	zip, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("it is no archive of flynn policy pack: %w", err)
	}
	zip.Multistream(false)
	unpacked := &io.LimitedReader{R: zip, N: maxUnpacked + 1}
	files, err := untar(unpacked)
	if err == nil {
		err = drained(unpacked)
	}
	switch {
	case packed.N <= 0 || unpacked.N <= 0:
		return nil, fmt.Errorf("it has more than %d bytes, or unpacks to more than %d", maxPacked, maxUnpacked)
	case err != nil:
		return nil, fmt.Errorf("it is no archive of flynn policy pack: %w", err)
	}
	return newPackage(files)
}

// untar reads the entries: regular files, each once, under names that stay inside.
func untar(r io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		_, twice := files[h.Name]
		switch {
		case h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("%.100q is no regular file", h.Name)
		case !localName(h.Name):
			return nil, fmt.Errorf("%.100q is no name of a file inside", h.Name)
		case twice:
			return nil, fmt.Errorf("%s is there twice", h.Name)
		case len(files) == maxFiles:
			return nil, fmt.Errorf("it has more than %d files", maxFiles)
		}
		if err := checkSize(h.Name, h.Size); err != nil {
			return nil, err
		}
		var content bytes.Buffer // grows with what is there, not with what the header says
		if _, err := io.Copy(&content, in); err != nil {
			return nil, err
		}
		files[h.Name] = content.Bytes()
	}
}

// drained reads to the end, so that the checksum of the archive is looked at.
func drained(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
