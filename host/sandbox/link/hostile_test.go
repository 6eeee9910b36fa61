package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// peer is the supervisor's end of a line, as a test plays it.
type peer struct {
	conn net.Conn
	in   *frame.Reader
	out  *frame.Writer
}

// send writes frames until the host hangs up.
func (p *peer) send(frames ...frame.Frame) bool { return p.out.Send(frames...) == nil }

// await reads up to the first request of that type, and returns its id.
func (p *peer) await(first frame.Type) uint32 {
	for {
		f, err := p.in.Next()
		if err != nil {
			return 0
		}
		if f.Type == first {
			return f.ID
		}
	}
}

// untilHungUp reads what the host still says.
func (p *peer) untilHungUp() { _, _ = io.Copy(io.Discard, p.conn) }

// line returns a link that is served, to a peer that does what play does and then hangs up.
func line(t testing.TB, handlers map[frame.ConnectKind]Handler, play func(p *peer)) *Link {
	t.Helper()
	host, inside := net.Pipe()
	l := New(Config{Stream: host, Handlers: handlers})
	played := make(chan struct{})
	go func() {
		defer close(played)
		defer inside.Close()
		play(&peer{inside, frame.NewReader(inside, frame.SupervisorSide), frame.NewWriter(inside)})
	}()
	go l.Serve(frame.NewReader(host, frame.HostSide))
	t.Cleanup(func() {
		l.Close(errors.New("the test is over"))
		<-played
	})
	return l
}

// run runs a command to its end.
func run(t testing.TB, l *Link, body frame.ExecBody) (machine.Result, error) {
	t.Helper()
	c := l.NewCall()
	if err := c.Begin(body, nil); err != nil {
		return machine.Result{}, err
	}
	return c.Wait(t.Context(), nil)
}

// A message that the protocol does not allow ends the link, and costs little memory.
func TestHostileSupervisor(t *testing.T) {
	data := func(id uint32, stream uint8, n int) frame.Frame {
		return frame.Frame{Type: frame.Data, Stream: stream, ID: id, Payload: make([]byte, n)}
	}
	exit := func(id uint32, b frame.ExitBody) frame.Frame {
		return frame.Frame{Type: frame.Exit, ID: id, Payload: frame.Encode(b)}
	}
	for name, attack := range map[string]func(c *peer, id uint32){
		"garbage":         func(c *peer, _ uint32) { _, _ = c.conn.Write(bytes.Repeat([]byte{0xff}, 1<<20)) },
		"hangs up":        func(*peer, uint32) {},
		"half a frame":    func(c *peer, id uint32) { _, _ = c.conn.Write(data(id, 1, 100).Append(nil)[:50]) },
		"unknown request": func(c *peer, id uint32) { c.send(data(id+7, 1, 10)) },
		"data on stdin":   func(c *peer, id uint32) { c.send(data(id, 0, 10)) },
		"second welcome":  func(c *peer, _ uint32) { c.send(frame.Frame{Type: frame.Welcome, Payload: []byte("{}")}) },
		"host's own type": func(c *peer, id uint32) {
			_, _ = c.conn.Write(frame.Frame{Type: frame.Exec, ID: id}.Append(nil))
		},
		"more than asked for": func(c *peer, id uint32) { c.send(data(id, 1, 60<<10), data(id, 1, 60<<10)) },
		"endless output": func(c *peer, id uint32) {
			for c.send(data(id, 2, 1)) {
			}
		},
		"credit from nowhere": func(c *peer, id uint32) {
			c.send(frame.Frame{Type: frame.Credit, ID: id, Payload: []byte{0, 4, 0, 0}})
		},
		"result is no JSON": func(c *peer, id uint32) { c.send(frame.Frame{Type: frame.Exit, ID: id, Payload: []byte("{")}) },
		"result with a stowaway": func(c *peer, id uint32) {
			c.send(frame.Frame{Type: frame.Exit, ID: id, Payload: []byte(`{"x":1}`)})
		},
		"impossible code": func(c *peer, id uint32) { c.send(exit(id, frame.ExitBody{ExitCode: 256})) },
		"negative drop":   func(c *peer, id uint32) { c.send(exit(id, frame.ExitBody{Dropped: -1})) },
		"more dropped of one stream": func(c *peer, id uint32) {
			c.send(exit(id, frame.ExitBody{Dropped: 1, DroppedErr: 2}))
		},
		"negative memory": func(c *peer, id uint32) { c.send(exit(id, frame.ExitBody{PeakMemory: -1})) },
		"spill file without end": func(c *peer, id uint32) {
			c.send(exit(id, frame.ExitBody{Spill: frame.MaxSpill + 1}))
		},
		"changed file outside": func(c *peer, id uint32) {
			c.send(exit(id, frame.ExitBody{Changes: &frame.ChangesBody{Deleted: [][]byte{[]byte("../x")}}}))
		},
		"too many changed files": func(c *peer, id uint32) {
			c.send(exit(id, frame.ExitBody{Changes: &frame.ChangesBody{Added: slices.Repeat([][]byte{[]byte("a")}, 2000)}}))
		},
		"unknown rung": func(c *peer, id uint32) {
			c.send(exit(id, frame.ExitBody{Kill: &frame.KillBody{Rung: strings.Repeat("x", 1000)}}))
		},
		"reply instead of result": func(c *peer, id uint32) {
			c.send(frame.Frame{Type: frame.Reply, ID: id, Payload: []byte("{}")})
		},
		"started twice": func(c *peer, id uint32) {
			f := frame.Frame{Type: frame.Started, ID: id, Payload: frame.Encode(frame.StartedBody{PID: 5})}
			c.send(f, f)
		},
		"result twice": func(c *peer, id uint32) {
			c.send(frame.Frame{Type: frame.Started, ID: id, Payload: frame.Encode(frame.StartedBody{PID: 0})}, exit(id, frame.ExitBody{}))
		},
		"connection where there is no proxy": func(c *peer, _ uint32) {
			c.send(frame.Frame{Type: frame.Connect, ID: frame.ConnectionID(1), Payload: []byte(`{"kind":"proxy"}`)})
		},
		"data of such a connection": func(c *peer, _ uint32) { c.send(data(frame.ConnectionID(1), 1, 10)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			l := line(t, nil, func(p *peer) {
				if id := p.await(frame.Exec); id != 0 {
					attack(p, id)
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := run(t, l, frame.ExecBody{MaxOutput: 100 << 10})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, machine.ErrUnavailable) || !l.Dead() {
				t.Errorf("got %v, link is dead: %v", err, l.Dead())
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("host allocated %d bytes", used)
			}
			<-l.Done()
		})
	}
}

func TestHostileProxy(t *testing.T) {
	id := frame.ConnectionID
	connect := func(n uint32) frame.Frame {
		return frame.Frame{Type: frame.Connect, ID: id(n), Payload: []byte(`{"kind":"proxy"}`)}
	}
	for name, attack := range map[string]func(c *peer){
		"same id twice": func(c *peer) { c.send(connect(1), connect(1)) },
		"older id":      func(c *peer) { c.send(connect(2), connect(1)) },
		"too many": func(c *peer) {
			for n := range uint32(65) {
				c.send(connect(n + 1))
			}
		},
		"never opened": func(c *peer) {
			c.send(connect(1), frame.Frame{Type: frame.End, Stream: frame.Out, ID: id(2)})
		},
		"without credit": func(c *peer) {
			c.send(connect(1))
			for c.send(frame.Frame{Type: frame.Data, Stream: frame.In, ID: id(1), Payload: []byte("x")}) {
			}
		},
		"credit from nowhere": func(c *peer) {
			c.send(connect(1), frame.Frame{Type: frame.Credit, Stream: frame.In, ID: id(1), Payload: []byte{0, 0, 0, 1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			silent := func(ctx context.Context, _ io.ReadWriteCloser) { <-ctx.Done() }
			l := line(t, map[frame.ConnectKind]Handler{frame.ToProxy: silent}, func(p *peer) {
				if p.await(frame.Exec) != 0 {
					attack(p)
					p.untilHungUp()
				}
			})
			if _, err := run(t, l, frame.ExecBody{}); !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			<-l.Done()
			if n := l.Connections(); n != 0 {
				t.Errorf("%d connections are left", n)
			}
		})
	}
}

// The records of files from a supervisor that has been taken over are checked.
func TestHostileFiles(t *testing.T) {
	entry := func(id uint32, e frame.Entry) frame.Frame {
		return frame.Frame{Type: frame.Data, Stream: frame.Err, ID: id, Payload: frame.Encode(e)}
	}
	file := frame.Entry{Name: []byte("f"), Size: 3, Mode: unix.S_IFREG}
	bytes3 := func(id uint32) frame.Frame {
		return frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("abc")}
	}
	reply := func(id uint32) frame.Frame {
		return frame.Frame{Type: frame.Reply, ID: id, Payload: frame.Encode(frame.ReadReply{Size: 3})}
	}
	for name, attack := range map[string]func(c *peer, id uint32){
		"no entry":       func(c *peer, id uint32) { c.send(bytes3(id), reply(id)) },
		"negative size":  func(c *peer, id uint32) { c.send(entry(id, frame.Entry{Size: -1}), reply(id)) },
		"entry is noise": func(c *peer, id uint32) { f := bytes3(id); f.Stream = frame.Err; c.send(f, reply(id)) },
		"too many bytes": func(c *peer, id uint32) { c.send(entry(id, file), bytes3(id), bytes3(id), reply(id)) },
		"endless": func(c *peer, id uint32) {
			for c.send(entry(id, file)); c.send(bytes3(id)); {
			}
		},
		"result": func(c *peer, id uint32) {
			c.send(frame.Frame{Type: frame.Exit, ID: id, Payload: frame.Encode(frame.ExitBody{})})
		},
		"hangs up": func(c *peer, id uint32) { c.send(entry(id, file)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			l := line(t, nil, func(p *peer) {
				if id := p.await(frame.Read); id != 0 {
					attack(p, id)
				}
			})
			f, _, err := l.Open(t.Context(), "f")
			if err == nil {
				_, err = io.Copy(io.Discard, f)
				f.Close()
			}
			if !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			<-l.Done()
		})
	}
}

// A supervisor that answers nothing ends the link, but one whose host takes its time costs nothing.
func TestOnlyStandstillEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line(t, nil, func(p *peer) {
			id := p.await(frame.Read)
			p.send(frame.Frame{Type: frame.Data, Stream: frame.Err, ID: id, Payload: frame.Encode(frame.Entry{Size: 10, Mode: unix.S_IFREG})})
			for range 5 {
				time.Sleep(50 * time.Second) // in the bubble's time: slow, but it moves
				p.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("x")})
			}
			p.untilHungUp()
		})
		f, _, err := l.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := io.ReadAll(f)
		if !errors.Is(err, machine.ErrUnavailable) || !bytes.Equal(got, []byte("xxxxx")) {
			t.Errorf("read %q, error %v", got, err)
		}
		if took := time.Since(began); took != 5*50*time.Second+patience {
			t.Errorf("took %v", took)
		}
		f.Close()
	})
}
