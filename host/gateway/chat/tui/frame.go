package tui

import (
	"io"
	"os"
	"sync/atomic"
)

// screen counts what the library writes to the terminal: one write for each frame, and one for each piece of the scrollback.
type screen struct {
	*os.File // which the library asks for the size
	written  atomic.Int64
}

func newScreen(out *os.File) *screen { return &screen{File: out} }

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	defer s.written.Add(1)
	return s.File.Write(p)
}

// WriteString implements io.StringWriter.
func (s *screen) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

// ReadFrom implements io.ReaderFrom, past which nothing is written.
func (s *screen) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{s}, r)
}

// frame knows how tall the live part on the terminal can be. The renderer writes a view some time after View has returned it, and leaves out
// views that another one follows soon; what is printed above the live part has to fit beside the view that is on the terminal.
type frame struct {
	screen  *screen
	printed int64 // pieces of the scrollback
	tallest int   // of the views that can be on the terminal
	last    int   // the height of the last view
	known   bool  // the renderer has the last view, and had written this many frames before:
	before  int64
}

// see notes the height of the next view.
func (f *frame) see(height int) {
	f.known = f.known && height == f.last
	f.last, f.tallest = height, max(f.tallest, height)
}

// look finds out whether the last view was written. It is called between two views, while no piece is being printed.
func (f *frame) look() {
	frames := f.screen.written.Load() - f.printed
	if !f.known {
		f.known, f.before = true, frames
	} else if frames > f.before {
		f.tallest = f.last
	}
}
