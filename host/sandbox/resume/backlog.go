package resume

// maxBacklog bounds what one end has written and the other has not acknowledged, in bytes.
const maxBacklog = 1 << 20

// backlog holds the bytes of a stream from the first that the peer has not acknowledged to the last that was written, by their offsets in
// the stream. Its zero value is empty.
type backlog struct {
	ring     []byte // its length is a power of two, or 0
	from, to uint64
}

const (
	firstRing = 4 << 10
	// idleRing is the largest ring that an empty backlog keeps.
	idleRing = 64 << 10
)

func (b *backlog) len() int { return int(b.to - b.from) }

// add appends as much of p as there is room for, and returns how much.
func (b *backlog) add(p []byte) int {
	p = p[:min(len(p), maxBacklog-b.len())]
	for len(b.ring) < b.len()+len(p) {
		b.grow()
	}
	for rest := p; len(rest) > 0; {
		n := copy(b.ring[b.at(b.to):], rest)
		b.to += uint64(n)
		rest = rest[n:]
	}
	return len(p)
}

func (b *backlog) grow() {
	grown := backlog{ring: make([]byte, max(firstRing, 2*len(b.ring))), from: b.from, to: b.to}
	for o := b.from; o < b.to; {
		p := b.ring[b.at(o):]
		n := copy(grown.ring[grown.at(o):], p[:min(uint64(len(p)), b.to-o)])
		o += uint64(n)
	}
	*b = grown
}

func (b *backlog) at(offset uint64) int { return int(offset & uint64(len(b.ring)-1)) }

// appendFrom appends the bytes from an offset on to dst, at most n.
func (b *backlog) appendFrom(dst []byte, offset uint64, n int) []byte {
	for end := min(b.to, offset+uint64(n)); offset < end; {
		p := b.ring[b.at(offset):]
		p = p[:min(uint64(len(p)), end-offset)]
		dst = append(dst, p...)
		offset += uint64(len(p))
	}
	return dst
}

// drop forgets the bytes before an offset.
func (b *backlog) drop(offset uint64) {
	b.from = offset
	if b.from == b.to && len(b.ring) > idleRing {
		b.ring = nil
	}
}
