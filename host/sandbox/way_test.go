package sandbox_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// way is one to an engine, on which answers may be held back or break off. Requests pass at once: the engine acts,
// and nobody hears.
type way struct {
	address string
	delay   atomic.Int64 // of each piece of an answer
	breaks  atomic.Bool  // connections made meanwhile end after some bytes

	mu     sync.Mutex
	broken []net.Conn // those
}

// mend ends the breaking, and the connections that it would go on in.
func (w *way) mend() {
	w.breaks.Store(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.broken {
		c.Close()
	}
}

func wayTo(t *testing.T, socket string) *way {
	t.Helper()
	dir, err := os.MkdirTemp("", "flynn-way-")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	w := &way{address: "unix://" + filepath.Join(dir, "s")}
	var relays sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	relays.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { w.relay(ctx, client, socket) })
		}
	})
	t.Cleanup(func() { l.Close(); end(); relays.Wait(); os.RemoveAll(dir) })
	return w
}

func (w *way) relay(ctx context.Context, client net.Conn, socket string) {
	defer client.Close()
	engine, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer engine.Close()
	defer context.AfterFunc(ctx, func() { client.Close(); engine.Close() })()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = io.Copy(engine, client)
		_ = engine.(*net.UnixConn).CloseWrite()
	}()
	w.answer(ctx, client, engine)
	client.Close()
	<-asked
}

func (w *way) answer(ctx context.Context, client net.Conn, engine io.Reader) {
	if w.breaks.Load() {
		w.mu.Lock()
		w.broken = append(w.broken, client)
		w.mu.Unlock()
		engine = io.LimitReader(engine, rand.Int64N(3000))
	}
	p := make([]byte, 64<<10)
	for {
		n, err := engine.Read(p)
		if err != nil {
			return
		}
		if delay := time.Duration(w.delay.Load()); delay > 0 {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return
			}
		}
		if _, err := client.Write(p[:n]); err != nil {
			return
		}
	}
}
