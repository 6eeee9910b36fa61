// Package ring keeps the end of an output, addressed by offsets in the complete output. Start with Buffer.
//
// It is small and imports little, because the supervisor in containers uses it, too.
package ring

import "sync"

// Size is the number of bytes kept.
const Size = 1 << 20

// Buffer keeps the last Size bytes written to it. Its zero value is empty; its methods are safe for concurrent use.
type Buffer struct {
	mu    sync.Mutex
	buf   []byte
	total int64 // bytes written so far
}

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for rest := p; len(rest) > 0; {
		at := int(b.total % Size)
		n := min(len(rest), Size-at)
		if len(b.buf) < Size {
			b.buf = append(b.buf, rest[:n]...)
		} else {
			copy(b.buf[at:], rest[:n])
		}
		b.total += int64(n)
		rest = rest[n:]
	}
	return len(p), nil
}

// Read returns at most n bytes from an offset on, or from the oldest kept byte if that is later. first is the offset of the first byte
// returned, and dropped the number of bytes that are not kept any more.
func (b *Buffer) Read(offset int64, n int) (p []byte, first, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dropped = max(b.total-Size, 0)
	first = min(max(offset, dropped), b.total)
	count := int(min(int64(n), b.total-first))
	p = make([]byte, 0, count)
	for len(p) < count {
		at := int((first + int64(len(p))) % Size)
		p = append(p, b.buf[at:min(at+count-len(p), len(b.buf))]...)
	}
	return p, first, dropped
}
