package machine

import (
	"slices"
	"sync"
)

// sink receives the output of a command as it arrives, from one goroutine at a time.
type sink interface{ take(p []byte) }

// capture keeps the first bytes of one stream and counts the others.
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

// progress makes a callback safe for use by both streams, and never returns nil.
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
