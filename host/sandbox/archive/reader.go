package archive

import (
	"errors"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxRecords bounds the entries that a supervisor may send of one folder. It is what the supervisor itself keeps to.
const maxRecords = 1_000_000

// Reader reads the records that a supervisor sends of a folder, and their content. The names may be any that a folder can
// have, and links may lead anywhere.
type Reader struct {
	in   *frame.RecordReader
	seen *tree
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader {
	return &Reader{frame.NewRecordReader(src), newTree(maxRecords, frame.MaxPath, false)}
}

// Next returns the next record, which fits to those before it, or io.EOF. One that no folder can have is a breach of the
// protocol: the error wraps frame.ErrProtocol.
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

// Read reads the content of the record that was read last; io.EOF is its end.
func (r *Reader) Read(p []byte) (int, error) { return r.in.Read(p) }

// Each calls take for each record up to the end; content is there to be read during the call.
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
