package resume

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// A peer without the right certificate never gets to say anything.
func TestStrangers(t *testing.T) {
	nothingStays(t)
	h, s, e := pair(t, Timeouts{})
	other, own, err := NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	tlsOf := func(identity []byte) *tls.Config {
		c, err := hostTLS(identity)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	hosts, others, supervisors := tlsOf(e.host), tlsOf(other), tlsOf(own)
	none := hosts.Clone()
	none.Certificates = nil
	mixed := hosts.Clone() // trusts the supervisor, but has another sandbox's certificate
	mixed.Certificates = others.Certificates
	wrongWay := hosts.Clone()
	wrongWay.Certificates = supervisors.Certificates
	old := hosts.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, c := range map[string]*tls.Config{
		"no certificate": none, "another sandbox's": mixed, "a supervisor's": wrongWay, "old TLS": old, "trusts another": others,
	} {
		conn, err := net.Dial("tcp", e.address)
		if err != nil {
			t.Fatal(err)
		}
		secure := tls.Client(conn, c)
		err = secure.Handshake()
		if err == nil {
			_ = hello{newSession(), 99, 0}.write(secure)
			_, err = secure.Read(make([]byte, 1))
		}
		if err == nil {
			t.Errorf("%s: it was let in", name)
		}
		conn.Close()
	}
	both(t, h, s, 1000)
	h.Close()
}

// talker speaks with the right certificate, but not as a host does.
func (e *supervisorEnd) talker(t *testing.T) *tls.Conn {
	t.Helper()
	c, err := hostTLS(e.host)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", e.address, c)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Hellos that are no hello, and resumptions that cannot be, change nothing for the host that is connected.
func TestHellosThatLie(t *testing.T) {
	nothingStays(t)
	h, s, e := pair(t, Timeouts{})
	both(t, h, s, 500_000)
	s.mu.Lock()
	from, to := s.out.from, s.out.to
	s.mu.Unlock()
	if from == 0 || to != 500_001 {
		t.Fatalf("acknowledged %d of %d", from, to)
	}
	for name, c := range map[string]struct {
		hello hello
		want  error
	}{
		"beyond what was sent":        {hello{h.session, 1, to + 1}, errOver},
		"below what was acknowledged": {hello{h.session, 1, from - 1}, errOver},
		"the first hello again":       {hello{h.session, 1, 0}, errOver},
		"far beyond":                  {hello{h.session, 1, 1<<64 - 1}, errOver},
		"another session":             {hello{newSession(), 1, to}, frame.ErrTaken},
		"a new owner with a past":     {hello{newSession(), 2, 1}, errOver},
		"no epoch":                    {hello{h.session, 0, to}, io.EOF},
	} {
		conn := e.talker(t)
		if err := c.hello.write(conn); err != nil {
			t.Fatal(err)
		}
		if _, err := readAnswer(conn); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, garbage := range map[string][]byte{
		"zeros": make([]byte, 100), "text": []byte("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything\r\n\r\n"), "ff": bytes.Repeat([]byte{0xff}, 1<<16),
	} {
		conn := e.talker(t)
		_, _ = conn.Write(garbage)
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s was answered", name)
		}
	}
	both(t, h, s, 500_000)
	h.Close()
}

// Records that no host sends end the stream, and nothing but that.
func TestRecordsThatLie(t *testing.T) {
	ack := func(n uint64) []byte {
		return append(head(nil, kindAck, ackSize), byte(n>>56), byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	for name, record := range map[string][]byte{
		"acknowledges what was not sent": ack(1001),
		"acknowledges the end of time":   ack(1<<64 - 1),
		"takes it back":                  append(ack(1000), ack(999)...),
		"no such kind":                   head(nil, 9, 0),
		"kind zero":                      head(nil, 0, 0),
		"data without data":              head(nil, kindData, 0),
		"too much at once":               head(nil, kindData, maxData+1),
		"a long acknowledgement":         head(nil, kindAck, 9),
		"a long close":                   head(nil, kindClose, 1),
	} {
		t.Run(name, func(t *testing.T) {
			nothingStays(t)
			e := listen(t, Timeouts{})
			conn := e.talker(t)
			if err := (hello{newSession(), 1, 0}).write(conn); err != nil {
				t.Fatal(err)
			}
			if _, err := readAnswer(conn); err != nil {
				t.Fatal(err)
			}
			s := e.next(t)
			if _, err := s.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil { // it was sent
				t.Fatal(err)
			}
			_, _ = conn.Write(record)
			if _, err := s.Read(make([]byte, 1)); !errors.Is(err, frame.ErrProtocol) {
				t.Errorf("got %v", err)
			}
			conn.Close()
		})
	}
}

// A supervisor that lies about what it has ends the stream of the host.
func TestAnswersThatLie(t *testing.T) {
	for name, a := range map[string]answer{
		"more than was sent": {received: 1001},
		"no status":          {status: 9},
		"it has ended":       {status: over},
		"taken":              {status: taken, epoch: 5},
	} {
		t.Run(name, func(t *testing.T) {
			nothingStays(t)
			host, own, err := NewIdentities()
			if err != nil {
				t.Fatal(err)
			}
			settings, err := supervisorTLS(own)
			if err != nil {
				t.Fatal(err)
			}
			l, err := tls.Listen("tcp", "127.0.0.1:0", settings)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var serving sync.WaitGroup
			serving.Go(func() {
				for honest := true; ; honest = false {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = readHello(c)
					if !honest {
						_ = a.write(c)
						_, _ = io.Copy(io.Discard, c)
					} else if (answer{epoch: 1}).write(c) == nil {
						_, _ = io.CopyN(io.Discard, c, 1000)
					}
					c.Close()
				}
			})
			h, err := Dial(t.Context(), Host{Dial: dialTo(l.Addr().String()), Identity: host, Epoch: 1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			_, err = h.Read(make([]byte, 1))
			want := frame.ErrProtocol
			switch a.status {
			case over:
				want = io.EOF
			case taken:
				want = frame.ErrTaken
			}
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			h.Close()
			l.Close()
			serving.Wait()
		})
	}
}

// Thousands of connections that say nothing, or nonsense, neither keep the host out nor stay.
func TestFloodBeforeTheHandshake(t *testing.T) {
	nothingStays(t)
	soon := Timeouts{Handshake: short.Handshake} // nothing else is expected to time out
	e := listen(t, soon)
	stop := make(chan struct{})
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			var open []net.Conn
			for n := 0; ; n++ {
				select {
				case <-stop:
					for _, c := range open {
						c.Close()
					}
					return
				default:
				}
				c, err := net.Dial("tcp", e.address)
				if err != nil {
					continue
				}
				if n%2 == 0 {
					_, _ = c.Write([]byte("nonsense"))
				}
				if open = append(open, c); len(open) > 100 {
					open[0].Close()
					open = open[1:]
				}
				e.mu.Lock()
				half := len(e.half)
				e.mu.Unlock()
				if half > maxHalf {
					t.Errorf("%d connections are half open", half)
				}
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	h, err := e.dial(t, e.address, 1, soon)
	if err != nil {
		t.Fatal(err)
	}
	both(t, h, e.next(t), 1<<20)
	close(stop)
	flood.Wait()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		e.mu.Lock()
		half := len(e.half)
		e.mu.Unlock()
		if half == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%d connections stay half open", half)
		}
	}
	h.Close()
}

// FuzzHellos: nothing that is accepted as the beginning of a connection says something else when it is written again.
func FuzzHellos(f *testing.F) {
	var p bytes.Buffer
	_ = hello{newSession(), 3, 1 << 40}.write(&p)
	f.Add(p.Bytes())
	p.Reset()
	_ = answer{welcome, 3, 1 << 40}.write(&p)
	f.Add(p.Bytes())
	f.Fuzz(func(t *testing.T, p []byte) {
		var again bytes.Buffer
		if h, err := readHello(bytes.NewReader(p)); err == nil {
			if _ = h.write(&again); h.epoch == 0 || !bytes.Equal(again.Bytes(), p[:helloSize]) {
				t.Errorf("%x became %x", p, again.Bytes())
			}
		}
		again.Reset()
		if a, err := readAnswer(bytes.NewReader(p)); err == nil {
			if _ = a.write(&again); a.status != welcome || !bytes.Equal(again.Bytes(), p[:answerSize]) {
				t.Errorf("%x became %x", p, again.Bytes())
			}
		}
	})
}

// FuzzRecords: whatever a peer sends, the stream delivers the bytes of its data records, and its backlog stays one.
func FuzzRecords(f *testing.F) {
	f.Add(append(head(nil, kindData, 3), "abc"...))
	f.Add(append(head(nil, kindAck, ackSize), 0, 0, 0, 0, 0, 0, 0, 5))
	f.Add(head(nil, kindClose, 0))
	f.Add(append(head(head(nil, kindData, 0), kindAck, 9), 0xff))
	f.Fuzz(func(t *testing.T, p []byte) {
		near, far := net.Pipe()
		defer far.Close()
		s := newStream(newSession(), 1, Timeouts{}.withDefaults())
		defer s.Close()
		_, attempt, err := s.begin()
		if err == nil {
			err = s.attach(newConn(near, newRecords(near)), attempt, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = far.Write(p)
			far.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		go func() {
			select {
			case <-s.cut: // no other connection comes
				s.end(io.EOF)
			case <-s.ctx.Done():
			}
		}()
		n, _ := io.Copy(io.Discard, s)
		if n > int64(len(p)) {
			t.Errorf("%d bytes of %d", n, len(p))
		}
		if s.out.from > s.out.to || s.out.len() > maxBacklog {
			t.Errorf("backlog from %d to %d", s.out.from, s.out.to)
		}
	})
}
