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

// Record describes one entry of a packed folder: 4 bytes length, the record as JSON, then Size bytes of content unless
// it is bare. It is less than a tar on purpose: both ends check all of it, and the supervisor needs no reader of a format
// that strangers' programs write.
type Record struct {
	Path  []byte `json:"p"` // relative to the folder, clean
	Mode  uint32 `json:"m"` // st_mode; a regular file, a folder or a symbolic link
	Size  int64  `json:"s,omitempty"`
	Mtime int64  `json:"t,omitempty"` // Unix nanoseconds
	// Link is a symbolic link's target. Of a regular file it is the path of an earlier record that it is another name of.
	Link []byte `json:"l,omitempty"`
	// Bare says that no content follows.
	Bare bool `json:"b,omitempty"`
}

// The bits of st_mode that say what an entry is; see inode(7).
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

// Type is the record's part of st_mode that says what it is.
func (r Record) Type() uint32 { return r.Mode & TypeBits }

// Append adds the record's wire form to dst; the content is for the caller to add.
func (r Record) Append(dst []byte) []byte {
	text := Encode(r)
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...)
}

// check refuses a record that no good peer would send.
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

// CheckName refuses what is no clean path below a folder.
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

// RecordReader reads records off a stream. Every byte is hostile until checked.
type RecordReader struct {
	src  *bufio.Reader
	left int64 // of the current record's content
}

// NewRecordReader returns a RecordReader.
func NewRecordReader(src io.Reader) *RecordReader {
	return &RecordReader{src: bufio.NewReaderSize(src, 32<<10)}
}

// Next returns the next record, skipping what was not read of the last one's content. The error is io.EOF at a clean
// end and wraps ErrProtocol for a record that cannot be.
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

// Read reads the current record's content; io.EOF is its end.
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

// cut gives the end of the stream inside of a record its name.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
