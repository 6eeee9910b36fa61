package archive

import (
	"errors"
	"fmt"
	"io"
)

// ratioFree is the unpacked size below which the ratio is not checked.
const ratioFree = 1 << 20

// packedReader counts the bytes read from the archive itself. Apart from the size limit, its errors are the source's and not the archive's
// fault.
type packedReader struct {
	src    io.Reader
	n, max int64
	err    error
}

func (r *packedReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if r.n += int64(n); r.n > r.max {
		n -= int(min(r.n-r.max, int64(n)))
		err = refuse("", fmt.Errorf("it is larger than %d bytes", r.max))
	}
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// blame attributes an error that occurred while reading the archive, to the source or to the archive.
func (r *packedReader) blame(entry string, err error) error {
	switch {
	case r.err != nil:
		return r.err
	case errors.Is(err, ErrRefused):
		return err
	}
	return refuse(entry, err)
}

// ratioReader fails when far more comes out than went in.
type ratioReader struct {
	src    io.Reader
	packed *packedReader
	n      int64
	ratio  int64
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if r.n += int64(n); r.n > ratioFree && r.n/r.ratio > r.packed.n {
		return 0, refuse("", fmt.Errorf("it grows to more than %d times its size", r.ratio))
	}
	return n, err
}

// sourceReader distinguishes read errors from write errors.
type sourceReader struct {
	src io.Reader
	err error
}

func (r *sourceReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.err = err
	return n, err
}
