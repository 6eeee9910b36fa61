package machine

import (
	"slices"
	"sync"
)

// sink takes the output of a command as it comes; it is called from one goroutine at a time.
type sink interface{ take(p []byte) }

// capture keeps the first bytes of one stream and counts the rest.
type capture struct {
	stream  Stream
	max     int
	report  func(Stream, []byte)
	bytes   []byte
	dropped int64
}

func newCapture(max int, stream Stream, report func(Stream, []byte)) *capture {
	if max <= 0 {
		max = DefaultMaxOutput
	}
	return &capture{stream: stream, max: max, report: report}
}

func (c *capture) take(p []byte) {
	room := min(c.max-len(c.bytes), len(p))
	c.dropped += int64(len(p) - room)
	if room == 0 {
		return
	}
	c.bytes = append(c.bytes, p[:room]...)
	c.report(c.stream, slices.Clone(p[:room]))
}

// progress makes a command's callback safe to call from both streams, and never nil.
func progress(f func(Stream, []byte)) func(Stream, []byte) {
	if f == nil {
		return func(Stream, []byte) {}
	}
	var mu sync.Mutex
	return func(s Stream, p []byte) {
		mu.Lock()
		defer mu.Unlock()
		f(s, p)
	}
}

// ring keeps the last bytes of a background process's joined output. Safe for concurrent use.
type ring struct {
	mu     sync.Mutex
	max    int
	buffer []byte
	start  int64 // offset of the buffer's first byte in all that was written
}

func newRing(max int) *ring { return &ring{max: max} }

func (r *ring) take(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffer = append(r.buffer, p...)
	// Trimming in steps of a quarter keeps the copying linear in what is written.
	if over := len(r.buffer) - r.max; over > r.max/4 {
		r.start += int64(over)
		r.buffer = append(r.buffer[:0], r.buffer[over:]...)
	}
}

// read returns at most max bytes from offset on; what is gone is skipped.
func (r *ring) read(offset int64, max int) Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.start + int64(len(r.buffer)-min(len(r.buffer), r.max))
	end := r.start + int64(len(r.buffer))
	offset = min(offset, end)
	from := offset
	if from < first {
		from = first
	}
	to := min(end, from+int64(max))
	return Output{
		Data:    slices.Clone(r.buffer[from-r.start : to-r.start]),
		Offset:  from,
		Next:    to,
		Dropped: first,
	}
}
