package fsroot

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// fill writes content to a new file and returns its size.
func fill(to *os.File, content io.Reader) (int64, error) {
	if from, ok := content.(*os.File); ok {
		return Clone(to, from)
	}
	return io.Copy(to, content)
}

// Clone makes an empty file one with the content of another, from its beginning to the end that it has now, and returns the size. Where the
// file system can, both share their blocks until one is written to; otherwise the content is copied without its holes.
func Clone(to, from *os.File) (int64, error) {
	info, err := from.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	if size > 0 && reflink(to, from) {
		if info, err = to.Stat(); err == nil && info.Size() > size { // it grew meanwhile
			err = to.Truncate(size)
		}
		return min(size, info.Size()), err
	}
	if err := copyData(to, from, size); err != nil {
		return 0, err
	}
	return size, to.Truncate(size)
}

// copyData copies the parts of a file that are not holes.
func copyData(to, from *os.File, size int64) error {
	for at := int64(0); at < size; {
		begin, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // the rest is a hole, or gone
		}
		end := size
		if err != nil {
			begin = at // the file system knows no holes
		} else if end, err = from.Seek(begin, unix.SEEK_HOLE); err != nil {
			return err
		}
		end = min(end, size)
		if begin >= end {
			return nil
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, begin), io.NewSectionReader(from, begin, end-begin)); err != nil {
			return err
		}
		at = end
	}
	return nil
}
