package frame

import (
	"io"
	"sync"
)

// Writer writes frames to a stream; it is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	dst io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// keepBuffer is the size above which a Writer releases its buffer.
const keepBuffer = 128 << 10

// Send writes the frames in one call of the underlying writer. After the first error every Send returns it, because a truncated frame makes
// the stream useless.
func (w *Writer) Send(frames ...Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.buf = w.buf[:0]
	for _, f := range frames {
		w.buf = f.Append(w.buf)
	}
	_, w.err = w.dst.Write(w.buf)
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	return w.err
}
