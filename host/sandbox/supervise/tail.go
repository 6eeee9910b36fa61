//go:build linux

package supervise

// tail keeps the last bytes of a stream.
type tail struct {
	size  int // how many
	buf   []byte
	total int64 // bytes ever written
}

// write shifts what it keeps only when the buffer has filled up twice.
func (t *tail) write(p []byte) {
	t.total += int64(len(p))
	if len(p) >= t.size {
		t.buf = append(t.buf[:0], p[len(p)-t.size:]...)
		return
	}
	if len(t.buf)+len(p) > 2*t.size {
		n := copy(t.buf, t.buf[len(t.buf)-t.size:])
		t.buf = t.buf[:n]
	}
	t.buf = append(t.buf, p...)
}

// bytes returns what is kept, and how many bytes were before it.
func (t *tail) bytes() (kept []byte, dropped int64) {
	kept = t.buf[max(len(t.buf)-t.size, 0):]
	return kept, t.total - int64(len(kept))
}
