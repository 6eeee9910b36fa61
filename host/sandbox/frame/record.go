package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Record describes one entry of a packed folder: a length of 4 bytes, the record as JSON, then Size bytes of content unless it is bare. The
// format is deliberately simpler than tar: both ends check it completely, and the supervisor needs no parser for a format that arbitrary
// programs write.
type Record struct {
	Path  []byte `json:"p"` // relative to the folder, clean
	Mode  uint32 `json:"m"` // st_mode of a regular file, a folder or a symbolic link
	Size  int64  `json:"s,omitempty"`
	Mtime int64  `json:"t,omitempty"` // Unix nanoseconds
	// Link is the target of a symbolic link. For a regular file it is the path of an earlier record that names the same file.
	Link []byte `json:"l,omitempty"`
	// Bare means that no content follows.
	Bare bool `json:"b,omitempty"`
}

// The bits of st_mode for the type of an entry; see inode(7).
const (
	TypeBits   = 0o170000
	TypeFile   = 0o100000
	TypeFolder = 0o040000
	TypeLink   = 0o120000
)

const (
	// maxRecord bounds the JSON of a record: two paths in base64.
	maxRecord = 16 << 10
	// MaxName bounds one component of a path (NAME_MAX).
	MaxName = 255
)

// Type returns the bits of st_mode for the type of the entry.
func (r Record) Type() uint32 { return r.Mode & TypeBits }

// Append appends the record's wire form to dst; the caller appends the content.
func (r Record) Append(dst []byte) []byte {
	text := Encode(r)
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...)
}

// check refuses a record that no correct peer sends.
func (r Record) check() error {
	why := CheckName(string(r.Path))
	switch {
	case why != nil:
	case r.Type() != TypeFile && r.Type() != TypeFolder && r.Type() != TypeLink:
		why = errors.New("neither file, folder nor link")
	case r.Size < 0 || r.Size > 0 && r.Type() != TypeFile:
		why = errors.New("impossible size")
	case r.Type() == TypeLink && (len(r.Link) == 0 || len(r.Link) > MaxPath || strings.ContainsRune(string(r.Link), 0)):
		why = errors.New("impossible target")
	case r.Type() == TypeFolder && len(r.Link) > 0:
		why = errors.New("a folder with a target")
	case r.Type() == TypeFile && len(r.Link) > 0:
		if why = CheckName(string(r.Link)); why == nil && r.Size != 0 {
			why = errors.New("another name with a content of its own")
		}
	}
	if why != nil {
		return fmt.Errorf("%w: record %.80q: %w", ErrProtocol, r.Path, why)
	}
	return nil
}

// CheckName refuses a name that is not a clean path below a folder.
func CheckName(name string) error {
	switch {
	case name == "" || name == ".":
		return errors.New("no name")
	case strings.ContainsRune(name, 0):
		return errors.New("a zero byte in the name")
	case path.IsAbs(name):
		return errors.New("an absolute name")
	case len(name) > MaxPath:
		return fmt.Errorf("a name longer than %d bytes", MaxPath)
	case path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../"):
		return errors.New("a name with dots or slashes that lead elsewhere")
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > MaxName {
			return fmt.Errorf("a part of the name is longer than %d bytes", MaxName)
		}
	}
	return nil
}

// RecordReader reads records from a stream. It trusts no byte.
type RecordReader struct {
	src  *bufio.Reader
	left int64 // of the current record's content
}

// NewRecordReader returns a RecordReader.
func NewRecordReader(src io.Reader) *RecordReader {
	return &RecordReader{src: bufio.NewReaderSize(src, 32<<10)}
}

// Next returns the next record, skipping the unread content of the last one. The error is io.EOF at a clean end and wraps ErrProtocol for
// an invalid record.
func (r *RecordReader) Next() (Record, error) {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return Record{}, err
	}
	var head [4]byte
	if _, err := io.ReadFull(r.src, head[:]); err != nil {
		return Record{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxRecord {
		return Record{}, fmt.Errorf("%w: record of %d bytes", ErrProtocol, size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r.src, text); err != nil {
		return Record{}, cut(err)
	}
	var rec Record
	if err := Decode(text, &rec); err != nil {
		return Record{}, err
	}
	if !rec.Bare {
		r.left = rec.Size
	}
	return rec, rec.check()
}

// Read reads the current record's content up to io.EOF.
func (r *RecordReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.src.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if r.left > 0 {
		err = cut(err)
	} else if err == io.EOF {
		err = nil
	}
	return n, err
}

// cut converts io.EOF within a record to io.ErrUnexpectedEOF.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
