package resume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// short are timeouts for tests in which something is expected to time out.
var short = Timeouts{Handshake: 2 * time.Second, Beat: 50 * time.Millisecond, Silence: 500 * time.Millisecond, Patience: 3 * time.Second}

// supervisorEnd is a Listener on the loopback.
type supervisorEnd struct {
	*Listener
	address string
	host    []byte // the host's identity
}

func listen(t testing.TB, timeouts Timeouts) *supervisorEnd {
	t.Helper()
	host, own, err := NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewListener(plain, own, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(l.Serve)
	t.Cleanup(func() {
		plain.Close()
		serving.Wait()
		l.mu.Lock()
		s := l.stream
		l.mu.Unlock()
		if s != nil {
			s.Close()
		}
	})
	return &supervisorEnd{l, plain.Addr().String(), host}
}

// next returns the stream of the next host.
func (e *supervisorEnd) next(t testing.TB) *Stream {
	t.Helper()
	select {
	case s := <-e.Hosts():
		return s.(*Stream)
	case <-time.After(time.Minute):
		t.Fatal("no host came")
		return nil
	}
}

func dialTo(address string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
}

// dial connects a host through an address, that of a proxy for example.
func (e *supervisorEnd) dial(t testing.TB, address string, epoch uint64, timeouts Timeouts) (*Stream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Dial(ctx, Host{Dial: dialTo(address), Identity: e.host, Epoch: epoch, Timeouts: timeouts})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// pair returns both ends of a stream.
func pair(t testing.TB, timeouts Timeouts) (host, supervisor *Stream, end *supervisorEnd) {
	t.Helper()
	e := listen(t, timeouts)
	h, err := e.dial(t, e.address, 1, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	return h, e.next(t), e
}

// both sends size random bytes in both directions at once, in pieces of all sizes, and compares them.
func both(t testing.TB, a, b *Stream, size int) {
	t.Helper()
	var work sync.WaitGroup
	ends := [2]*Stream{a, b}
	var sent, got [2]hash.Hash
	for i, end := range ends {
		sent[i], got[i] = sha256.New(), sha256.New()
		read := make(chan struct{})
		work.Go(func() {
			defer close(read)
			if n, err := io.CopyN(got[i], end, int64(size)); err != nil {
				t.Errorf("end %d: after %d of %d bytes: %v", i, n, size, err)
			}
		})
		work.Go(func() {
			<-read // acknowledgements arrive by reading, until the other end has written everything
			if _, err := io.ReadFull(end, make([]byte, 1)); err != nil {
				t.Errorf("end %d: at the end: %v", i, err)
			}
		})
		work.Go(func() {
			random, source := rand.New(rand.NewPCG(uint64(i), 0)), rand.NewChaCha8([32]byte{byte(i)})
			for left := size; left > 0; {
				p := make([]byte, min(left, 1+random.IntN(100_000)))
				source.Read(p)
				sent[i].Write(p)
				if _, err := end.Write(p); err != nil {
					t.Errorf("end %d: %d bytes before the end: %v", i, left, err)
					return
				}
				left -= len(p)
			}
			<-read
			if _, err := end.Write([]byte("x")); err != nil {
				t.Errorf("end %d: at the end: %v", i, err)
			}
		})
	}
	work.Wait()
	if !bytes.Equal(sent[0].Sum(nil), got[1].Sum(nil)) || !bytes.Equal(sent[1].Sum(nil), got[0].Sum(nil)) {
		t.Error("other bytes arrived than were sent")
	}
}

func TestBothWays(t *testing.T) {
	nothingStays(t)
	h, s, _ := pair(t, Timeouts{})
	both(t, h, s, 20<<20)
	if _, err := h.Write([]byte("the last")); err != nil {
		t.Error(err)
	}
	h.Close()
	p, err := io.ReadAll(s)
	if err != nil || string(p) != "the last" {
		t.Errorf("got %q, %v", p, err)
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing to a closed stream: %v", err)
	}
	if n, err := h.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading after Close: %d, %v", n, err)
	}
	if err := errors.Join(h.Close(), s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// A proxy cuts the connection hundreds of times, at random bytes of either direction, while both ends send megabytes.
func TestCutHundredsOfTimes(t *testing.T) {
	for name, half := range map[string]bool{"both sides": false, "the host's side": true} {
		t.Run(name, func(t *testing.T) {
			nothingStays(t)
			e := listen(t, Timeouts{})
			p := newProxy(t, e.address)
			p.most.Store(100_000)
			p.half.Store(half)
			h, err := e.dial(t, p.address, 1, Timeouts{})
			if err != nil {
				t.Fatal(err)
			}
			both(t, h, e.next(t), 6<<20)
			if n := p.cuts.Load(); n < 100 {
				t.Errorf("it was cut %d times only", n)
			}
			t.Logf("cut %d times", p.cuts.Load())
			h.Close()
			p.close()
		})
	}
}

// Bytes that were read from a connection when another one was begun come again over that, and do not count.
func TestBytesOfAReplacedConnection(t *testing.T) {
	nothingStays(t)
	near, far := net.Pipe()
	defer far.Close()
	s := newStream(newSession(), 1, Timeouts{}.withDefaults())
	defer s.Close()
	_, attempt, err := s.begin()
	c := newConn(near, newRecords(near))
	if err := errors.Join(err, s.attach(c, attempt, 0)); err != nil {
		t.Fatal(err)
	}
	if n := s.take(c, 5, nil); n != 5 {
		t.Errorf("%d bytes counted", n)
	}
	if received, _, err := s.begin(); err != nil || received != 5 {
		t.Errorf("%d received (%v)", received, err)
	}
	if n := s.take(c, 5, nil); n != 0 || s.received != 5 {
		t.Errorf("%d bytes counted, %d in all", n, s.received)
	}
	if err := s.attach(c, attempt, 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an attempt that another one has overtaken: %v", err)
	}
}

// On a link of 2 MB a second that is cut too, no bound is mistaken for the peer's silence.
func TestSlowLink(t *testing.T) {
	nothingStays(t)
	timeouts := Timeouts{Beat: 50 * time.Millisecond, Silence: 2 * time.Second, Patience: 10 * time.Second}
	e := listen(t, timeouts)
	p := newProxy(t, e.address)
	p.pause.Store(int64(2 * time.Millisecond))
	p.most.Store(1 << 20)
	h, err := e.dial(t, p.address, 1, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	both(t, h, e.next(t), 3<<20)
	h.Close()
	p.close()
}

// A peer that is silent is noticed: the connection is made again, and when that fails the stream ends on both sides.
func TestSilence(t *testing.T) {
	nothingStays(t)
	e := listen(t, short)
	p := newProxy(t, e.address)
	h, err := e.dial(t, p.address, 1, short)
	if err != nil {
		t.Fatal(err)
	}
	s := e.next(t)
	both(t, h, s, 1000)
	p.hold.Store(true)
	began := time.Now()
	for name, end := range map[string]*Stream{"host": h, "supervisor": s} {
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := end.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := time.Since(began); took < short.Patience || took > 10*short.Patience {
		t.Errorf("noticed after %v", took)
	}
	p.close()
}

// A short silence costs nothing.
func TestSilenceForAMoment(t *testing.T) {
	nothingStays(t)
	e := listen(t, Timeouts{Beat: 20 * time.Millisecond, Silence: 200 * time.Millisecond, Handshake: 200 * time.Millisecond})
	p := newProxy(t, e.address)
	h, err := e.dial(t, p.address, 1, e.timeouts)
	if err != nil {
		t.Fatal(err)
	}
	s := e.next(t)
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, h) }) // notices the silence
	p.hold.Store(true)
	if _, err := h.Write([]byte("late")); err != nil {
		t.Error(err)
	}
	for noticed := false; !noticed; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		noticed = h.conn == nil || h.attempt > 1
		h.mu.Unlock()
	}
	p.hold.Store(false)
	q := make([]byte, 4)
	if _, err := io.ReadFull(s, q); err != nil || string(q) != "late" {
		t.Errorf("got %q, %v", q, err)
	}
	h.Close()
	s.Close()
	reading.Wait()
	p.close()
}

func TestOwners(t *testing.T) {
	nothingStays(t)
	first, s, e := pair(t, Timeouts{})
	if _, err := e.dial(t, e.address, 1, Timeouts{}); !errors.Is(err, frame.ErrTaken) {
		t.Errorf("another host with the same epoch: %v", err)
	}
	both(t, first, s, 1000)
	second, err := e.dial(t, e.address, 7, Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the supervisor's end of the old stream: %v", err)
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, frame.ErrTaken) {
		t.Errorf("the old host: %v", err)
	}
	if _, err := e.dial(t, e.address, 6, Timeouts{}); !errors.Is(err, frame.ErrTaken) {
		t.Errorf("an older host: %v", err)
	}
	both(t, second, e.next(t), 1000)
	third, err := e.dial(t, e.address, 8, Timeouts{}) // nobody has taken the stream of this one before the next is there
	if err != nil {
		t.Fatal(err)
	}
	fourth, err := e.dial(t, e.address, 9, Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	both(t, fourth, e.next(t), 1000)
	third.Close()
	fourth.Close()
	first.Close()
	second.Close()
}

// A host that reads nothing takes no more memory than a backlog, and no more time than the stream's patience.
func TestHostThatReadsNothing(t *testing.T) {
	nothingStays(t)
	e := listen(t, short)
	conn := e.talker(t)
	if err := (hello{newSession(), 1, 0}).write(conn); err != nil {
		t.Fatal(err)
	}
	s := e.next(t)
	go func() { _, _ = io.Copy(io.Discard, s) }()
	total := 0
	for {
		n, err := s.Write(make([]byte, 1<<16))
		total += n
		if err != nil {
			break
		}
	}
	if total > maxBacklog {
		t.Errorf("%d bytes were taken for a host that acknowledges nothing", total)
	}
	conn.Close()
}

// Until a host has been told otherwise a supervisor that is gone is one that may come back; Gone tells.
func TestGone(t *testing.T) {
	nothingStays(t)
	e := listen(t, Timeouts{})
	var gone sync.Mutex
	asked := 0
	h, err := Dial(t.Context(), Host{Dial: dialTo(e.address), Identity: e.host, Epoch: 1, Gone: func(context.Context) bool {
		gone.Lock()
		defer gone.Unlock()
		asked++
		return asked > 3
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := e.next(t)
	both(t, h, s, 1)
	e.net.Close()
	s.mu.Lock()
	s.conn.Close()
	s.mu.Unlock()
	if _, err := h.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v", err)
	}
	if asked != 4 {
		t.Errorf("asked %d times", asked)
	}
	h.Close()
}

func TestIdentitiesThatAreNone(t *testing.T) {
	host, own, err := NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "half": host[:len(host)/2], "twice": append(bytes.Clone(host), own...),
		"trailing": append(bytes.Clone(host), "x"...), "another's key": bytes.Replace(host, host[:100], own[:100], 1),
		"no key": host[:bytes.Index(host, []byte("-----BEGIN PRIVATE"))],
	} {
		if _, err := hostTLS(p); !errors.Is(err, errIdentity) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := supervisorTLS(p); !errors.Is(err, errIdentity) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// nothingStays fails the test if goroutines stay when everything else of it is cleaned up.
func nothingStays(t *testing.T) {
	t.Helper()
	current := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, current) })
}
