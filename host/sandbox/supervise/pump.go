//go:build linux

package supervise

import (
	"errors"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	pumpBuffer = 64 << 10
	// floodSize is the number of bytes after which a stream gets a larger pipe, of floodPipe bytes: fewer, larger reads and fewer wake-ups.
	// Not every command gets one, because the kernel limits all pipes of a user together.
	floodSize = 1 << 20
	floodPipe = 256 << 10
	// pumpHold is how much output of a quiet command is sent together with its result.
	pumpHold = 32 << 10
	// leftover bounds what is read after draining: more than any pipe holds by default.
	leftover = 1 << 20
)

// pump copies one output stream: to the host up to the command's cap, or to the ring buffer of a background command. Output beyond the cap
// is read and counted, so that the command never blocks on it.
type pump struct {
	c       *command
	stream  uint8
	fd      int      // of the pipe, until open; -1 if there is none or it is closed
	src     *os.File // nil before open
	window  *frame.SendWindow
	taken   int64  // bytes accepted
	dropped int64  // bytes beyond the cap
	held    []byte // accepted but not sent yet
	done    chan struct{}
	tail    *tail // the end of the output beyond the cap, if it is requested
	// sweeping keeps what is read for the result.
	sweeping bool
}

var buffers = sync.Pool{New: func() any { return new([pumpBuffer]byte) }}

func newPump(c *command, stream uint8) *pump {
	p := &pump{c: c, stream: stream, fd: -1, window: frame.NewSendWindow(), done: make(chan struct{})}
	if c.spill != nil {
		p.tail = &tail{size: int(frame.Tail(c.body.MaxOutput))}
	}
	return p
}

// head returns how much is sent from the beginning of the stream.
func (p *pump) head() int64 {
	if p.c.body.Live {
		return math.MaxInt64
	}
	if p.tail != nil {
		return p.c.body.MaxOutput - int64(p.tail.size)
	}
	return p.c.body.MaxOutput
}

// open starts copying what is not read yet.
func (p *pump) open() {
	if p.fd < 0 { // joined with the other stream, or at its end
		close(p.done)
		return
	}
	p.src, p.fd = os.NewFile(uintptr(p.fd), "pipe"), -1
	go p.run()
}

// sweep reads what an ended command has left in the pipe, without blocking, and reports whether that is everything and little.
func (p *pump) sweep() bool {
	if p.fd < 0 {
		return true
	}
	p.sweeping = true
	defer func() { p.sweeping = false }()
	buf := buffers.Get().(*[pumpBuffer]byte)
	defer buffers.Put(buf)
	for range 2 { // the data, and then the end
		n, err := unix.Read(p.fd, buf[:pumpHold])
		if err != nil {
			return false
		}
		if n == 0 {
			unix.Close(p.fd)
			p.fd = -1
			return p.dropped == 0 && (p.tail == nil || p.tail.total == 0)
		}
		p.accept(buf[:n])
	}
	return false
}

// run copies until the stream ends or cut is called. After cut it keeps reading, for the sake of processes that still write, and discards
// the data.
func (p *pump) run() {
	buf := buffers.Get().(*[pumpBuffer]byte)
	defer buffers.Put(buf)
	defer p.src.Close()
	err := p.carry(buf)
	wasCut := errors.Is(err, os.ErrDeadlineExceeded)
	if wasCut {
		p.readLeftover(buf)
	}
	close(p.done)
	if wasCut {
		p.discard(buf)
	}
}

func (p *pump) carry(buf *[pumpBuffer]byte) error {
	for total, wide := 0, false; ; {
		n, err := p.src.Read(buf[:])
		if total += n; total > floodSize && !wide {
			p.widen()
			wide = true
		}
		if n > 0 {
			p.accept(buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// widen enlarges the stream's pipe, if it is one and the kernel permits.
func (p *pump) widen() {
	if raw, err := p.src.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, floodPipe) })
	}
}

// readLeftover reads what the ended command wrote before its end, all of which is in the pipe.
func (p *pump) readLeftover(buf *[pumpBuffer]byte) {
	_ = p.src.SetReadDeadline(time.Time{})
	raw, err := p.src.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < leftover; {
		n := 0
		_ = raw.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buf[:])
			return true
		})
		if n <= 0 {
			return
		}
		p.accept(buf[:n])
		total += n
	}
}

func (p *pump) discard(buf *[pumpBuffer]byte) {
	for {
		if _, err := p.src.Read(buf[:]); err != nil {
			return
		}
	}
}

// cut makes run return although the stream is still open.
func (p *pump) cut() {
	if p.src != nil {
		_ = p.src.SetReadDeadline(time.Unix(1, 0))
	}
}

func (p *pump) accept(b []byte) {
	if p.c.ring != nil {
		_, _ = p.c.ring.Write(b) // never fails
		return
	}
	if p.c.spill != nil {
		p.c.spill.add(b)
	}
	room := max(p.head()-p.taken, 0)
	keep := min(int64(len(b)), room)
	p.taken += keep
	if p.tail != nil {
		p.tail.write(b[keep:])
	} else {
		p.dropped += int64(len(b)) - keep
	}
	p.held = append(p.held, b[:keep]...)
	if (p.c.body.Eager || p.c.body.Live) && !p.sweeping || len(p.held) >= pumpHold {
		p.flush()
	}
}

// flush sends the held output as credit allows.
func (p *pump) flush() { p.pass(func(f frame.Frame) { p.c.s.send(f) }) }

// finish adds the tail to the held output when the stream has ended. If that is too much to be sent together with the result, it is sent at
// once.
func (p *pump) finish() {
	if p.tail == nil {
		return
	}
	kept, dropped := p.tail.bytes()
	p.held, p.dropped = append(p.held, kept...), dropped
	if len(p.held) > pumpHold {
		p.flush()
	}
}

// rest returns the held output as frames, after waiting for their credit.
func (p *pump) rest() []frame.Frame {
	var frames []frame.Frame
	p.pass(func(f frame.Frame) { frames = append(frames, f) })
	return frames
}

// pass passes the held output to send in frames, as credit allows.
func (p *pump) pass(send func(frame.Frame)) {
	for b := p.held; len(b) > 0; {
		n, err := p.window.Take(p.c.s.ctx, min(len(b), frame.MaxData))
		if err != nil {
			break
		}
		send(frame.Frame{Type: frame.Data, Stream: p.stream, ID: p.c.id, Payload: b[:n]})
		b = b[n:]
	}
	p.held = p.held[:0]
}

// tail keeps the last bytes of a stream.
type tail struct {
	size  int // number of bytes to keep
	buf   []byte
	total int64 // bytes written so far
}

// write moves the kept bytes only when the buffer has reached twice their size.
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

// bytes returns the kept bytes, and how many bytes preceded them.
func (t *tail) bytes() (kept []byte, dropped int64) {
	kept = t.buf[max(len(t.buf)-t.size, 0):]
	return kept, t.total - int64(len(kept))
}
