package mounts

import (
	"os"
)

// Source is a folder or file that passed the rules. It is held open, so that its number on the file system cannot go to
// another one until Close.
type Source struct {
	// Path has no links in it.
	Path string
	file *os.File
	info os.FileInfo
}

// ID identifies a file on this machine for as long as it exists: st_dev and st_ino.
type ID struct{ Dev, Ino uint64 }

// ID is the source's.
func (s *Source) ID() ID { return identify(s.info) }

// IsDir tells folders from files.
func (s *Source) IsDir() bool { return s.info.IsDir() }

// Close lets go of the source.
func (s *Source) Close() error { return s.file.Close() }
