package resume

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between a host and a supervisor.
type proxy struct {
	address string
	to      string
	most    atomic.Int64 // bytes after which a connection is cut at the latest; 0 for never
	pause   atomic.Int64 // after each piece of at most 4 KiB
	hold    atomic.Bool  // nothing passes
	half    atomic.Bool  // only the host's side is cut, and the supervisor does not learn of it
	cuts    atomic.Int64
	l       net.Listener
	work    sync.WaitGroup
	over    chan struct{}
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: l.Addr().String(), to: to, l: l, over: make(chan struct{})}
	p.work.Go(p.accept)
	return p
}

func (p *proxy) close() {
	close(p.over)
	p.l.Close()
	p.work.Wait()
}

func (p *proxy) accept() {
	for {
		a, err := p.l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", p.to)
		if err != nil {
			a.Close()
			continue
		}
		p.work.Go(func() { p.pass(a, b, a) })
		p.work.Go(func() { p.pass(b, a, a) })
	}
}

// pass copies until a random number of bytes has passed, of which the last piece arrives in part.
func (p *proxy) pass(from, to, host net.Conn) {
	defer to.Close()
	defer from.Close()
	most := p.most.Load()
	left := 1 + rand.IntN(int(max(most, 1)))
	buf := make([]byte, 4<<10)
	for {
		_ = from.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := from.Read(buf)
		for held := true; held; held = p.hold.Load() {
			select {
			case <-p.over:
				return
			case <-time.After(time.Duration(p.pause.Load())):
			}
		}
		if timeout, ok := err.(net.Error); n == 0 && (!ok || !timeout.Timeout()) {
			return
		}
		if most > 0 && n >= left {
			_, _ = to.Write(buf[:left])
			p.cuts.Add(1)
			if p.half.Load() {
				host.Close()
				<-p.over
			}
			return
		}
		left -= n
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
