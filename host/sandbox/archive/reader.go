package archive

import (
	"errors"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxRecords bounds the entries that a supervisor may send for one folder; the supervisor applies the same limit.
const maxRecords = 1_000_000

// Reader reads the records and contents that a supervisor sends for a folder. Names and link targets may be anything that a file system
// allows.
type Reader struct {
	in   *frame.RecordReader
	seen *tree
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader {
	return &Reader{frame.NewRecordReader(src), newTree(maxRecords, frame.MaxPath, false)}
}

// Next returns the next record, or io.EOF. A record that no folder can have, or that does not fit to those before it, is a protocol
// violation: the error wraps frame.ErrProtocol.
func (r *Reader) Next() (frame.Record, error) {
	record, err := r.in.Next()
	if err != nil {
		return frame.Record{}, err
	}
	err = r.seen.add(string(record.Path), record.Type())
	if err == nil && record.Type() == frame.TypeFile && len(record.Link) > 0 {
		err = errors.New("another name of a file")
	}
	if err != nil {
		return frame.Record{}, fmt.Errorf("%w: record %.80q: %w", frame.ErrProtocol, record.Path, err)
	}
	return record, nil
}

// Read reads the content of the record that Next returned last, up to io.EOF.
func (r *Reader) Read(p []byte) (int, error) { return r.in.Read(p) }

// Each calls take for each remaining record; content is valid during the call.
func (r *Reader) Each(take func(record frame.Record, content io.Reader) error) error {
	for {
		record, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(record, r); err != nil {
			return err
		}
	}
}
