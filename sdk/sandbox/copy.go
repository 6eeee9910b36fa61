package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Entry is a file, a folder or a symbolic link of a Copy.
type Entry struct {
	// Path is relative to the mount's target, with slashes; "." is the target itself. A folder comes before what is in it.
	Path    string
	Folder  bool
	Link    string // target of a link
	Content []byte // of a file
}

// maxCopy bounds a Copy, as the protocol says.
const maxCopy = 64 << 20

// ReadCopy reads the source of a Copy.
func ReadCopy(source string) (all []Entry, err error) {
	room := int64(maxCopy)
	err = filepath.WalkDir(source, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, at)
		if err != nil {
			return err
		}
		e := Entry{Path: filepath.ToSlash(name), Folder: d.IsDir()}
		switch {
		case d.IsDir():
		case d.Type() == fs.ModeSymlink:
			e.Link, err = os.Readlink(at)
		case d.Type().IsRegular():
			e.Content, err = readWithin(at, &room)
		default:
			err = errors.New("it is neither a file nor a folder nor a link")
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", at, err)
		}
		all = append(all, e)
		return nil
	})
	return all, err
}

// readWithin reads a file that fits into room, and takes its size off it.
func readWithin(path string, room *int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if *room -= info.Size(); *room < 0 {
		return nil, fmt.Errorf("it is longer than %d bytes, with what lies beside it", int64(maxCopy))
	}
	return os.ReadFile(path)
}
