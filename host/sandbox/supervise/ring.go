//go:build linux

package supervise

import "sync"

// ringSize is how much of a background command's output is kept.
const ringSize = 1 << 20

// ring keeps the last ringSize bytes of a stream, addressed by their offset in the whole of it.
type ring struct {
	mu    sync.Mutex
	buf   []byte
	total int64 // bytes ever written
}

func (r *ring) write(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(p) > 0 {
		if at := int(r.total % ringSize); len(r.buf) < ringSize {
			n := min(len(p), ringSize-at)
			r.buf = append(r.buf, p[:n]...)
			r.total += int64(n)
			p = p[n:]
		} else {
			n := copy(r.buf[at:], p)
			r.total += int64(n)
			p = p[n:]
		}
	}
}

// read returns at most n bytes from offset on, or from the oldest kept one if that is later,
// with the offset of the first and the number of bytes that are no longer kept.
func (r *ring) read(offset int64, n int) (p []byte, first, dropped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := max(r.total-ringSize, 0)
	first = min(max(offset, oldest), r.total)
	count := int(min(int64(n), r.total-first))
	p = make([]byte, 0, count)
	for len(p) < count {
		at := int((first + int64(len(p))) % ringSize)
		p = append(p, r.buf[at:min(at+count-len(p), len(r.buf))]...)
	}
	return p, first, oldest
}
