package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// reply answers a request with a body.
func (p *peer) reply(id uint32, body any) {
	p.send(frame.Frame{Type: frame.Reply, ID: id, Payload: frame.Encode(body)})
}

// exit ends a command.
func (p *peer) exit(id uint32, b frame.ExitBody) {
	p.send(frame.Frame{Type: frame.Exit, ID: id, Payload: frame.Encode(b)})
}

// start plays a supervisor that starts the next command.
func (p *peer) start() uint32 {
	id := p.await(frame.Exec)
	p.send(frame.Frame{Type: frame.Started, ID: id, Payload: frame.Encode(frame.StartedBody{PID: 5})})
	return id
}

func TestOutputIsMarkedWhereSomethingWasLeftOut(t *testing.T) {
	l := line(t, nil, func(p *peer) {
		id := p.start()
		p.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("12")},
			frame.Frame{Type: frame.Data, Stream: frame.Err, ID: id, Payload: []byte("ab")},
			frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("89")})
		p.exit(id, frame.ExitBody{ExitCode: 3, Dropped: 5, Spill: 7})
	})
	r, err := run(t, l, frame.ExecBody{MaxOutput: 4, Spill: true})
	if want := "12\n[5 bytes left out here; all of it is in .flynn/output/7.log]\n89"; err != nil || string(r.Stdout) != want {
		t.Errorf("stdout %q, want %q (%v)", r.Stdout, want, err)
	}
	if string(r.Stderr) != "ab" || r.ExitCode != 3 || r.Spill != ".flynn/output/7.log" {
		t.Errorf("got %+v", r)
	}
}

// A caller that gives up has the output until then, and the command goes on.
func TestWaitIsGivenUp(t *testing.T) {
	goOn := make(chan struct{})
	l := line(t, nil, func(p *peer) {
		id := p.start()
		p.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("half")})
		<-goOn
		p.exit(id, frame.ExitBody{})
		p.untilHungUp()
	})
	c := l.NewCall()
	if err := c.Begin(frame.ExecBody{MaxOutput: 100}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Wait(ctx, func(machine.Stream, []byte) { cancel() })
	if !errors.Is(err, context.Canceled) || string(r.Stdout) != "half" {
		t.Errorf("got %+v (%v)", r, err)
	}
	close(goOn)
	<-c.Done()
	if r := c.Result(); c.Err() != nil || r.ExitCode != 0 || r.Signal != "" {
		t.Errorf("in the end %+v (%v)", r, c.Err())
	}
}

// Others may see a command before it has begun, or after it could not. The supervisor takes a word on it for a breach.
func TestNothingIsSaidOfACommandThatHasNotBegun(t *testing.T) {
	l := line(t, nil, func(p *peer) {
		p.exit(p.start(), frame.ExitBody{})
		p.untilHungUp()
	})
	c := l.NewCall()
	if err := c.Begin(frame.ExecBody{Script: make([]byte, frame.MaxPayload), Background: true}, nil); !errors.Is(err, errTooLong) {
		t.Errorf("begin: %v", err)
	}
	_, output := c.Output(t.Context(), 0, 10)
	for what, err := range map[string]error{"stop": c.Stop(), "cancel": c.Cancel(), "signal": c.Signal(15), "resize": c.Resize(frame.Size{}), "output": output} {
		if !errors.Is(err, errNotBegun) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.Forget()
	if _, err := run(t, l, frame.ExecBody{}); err != nil {
		t.Errorf("the next command: %v", err)
	}
}

// Background commands are watched like others, at their end and afterwards.
func TestHostileBackground(t *testing.T) {
	for name, attack := range map[string]func(p *peer, id uint32){
		"a reply for a result": func(p *peer, id uint32) { p.reply(id, struct{}{}) },
		"output unasked": func(p *peer, id uint32) {
			p.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("x")})
		},
		"impossible certificate": func(p *peer, id uint32) {
			p.exit(id, frame.ExitBody{})
			p.reply(p.await(frame.Sweep), frame.KillBody{Rung: "prayer"})
		},
		"a start of something else": func(p *peer, id uint32) {
			p.exit(id, frame.ExitBody{})
			p.send(frame.Frame{Type: frame.Started, ID: p.await(frame.Sweep), Payload: frame.Encode(frame.StartedBody{PID: 5})})
		},
		"a result on something else": func(p *peer, id uint32) {
			p.exit(id, frame.ExitBody{})
			p.exit(p.await(frame.Sweep), frame.ExitBody{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			l := line(t, nil, func(p *peer) {
				attack(p, p.start())
				p.untilHungUp()
			})
			c := l.NewCall()
			if err := c.Begin(frame.ExecBody{Background: true}, nil); err != nil {
				t.Fatal(err)
			}
			<-c.Done()
			err := c.Err()
			if err == nil {
				_, err = c.Sweep(t.Context())
			}
			if !errors.Is(err, machine.ErrUnavailable) || !errors.Is(err, frame.ErrProtocol) {
				t.Errorf("got %v", err)
			}
			<-l.Done()
		})
	}
}

// A record that the host cannot carry out is no breach; records that contradict each other are one.
func TestExportEnds(t *testing.T) {
	full := errors.New("disk is full")
	for name, c := range map[string]struct {
		read error
		dead bool
	}{"disk is full": {full, false}, "breach": {fmt.Errorf("%w: twice", frame.ErrProtocol), true}} {
		t.Run(name, func(t *testing.T) {
			l := line(t, nil, func(p *peer) {
				id := p.await(frame.Export)
				p.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: frame.Record{Path: []byte("f"), Mode: frame.TypeFile}.Append(nil)})
				p.await(frame.Stop)
				p.reply(id, frame.ExportReply{})
				p.untilHungUp()
			})
			_, err := l.Export(t.Context(), frame.ExportBody{Path: []byte(".")}, nil, func(io.Reader) error { return c.read })
			if !errors.Is(err, c.read) || errors.Is(err, machine.ErrUnavailable) != c.dead || l.Dead() != c.dead {
				t.Errorf("got %v, link is dead: %v", err, l.Dead())
			}
		})
	}
}

// FuzzLink has a command answered by anything. The link ends when the peer does, whatever it has sent, and so does the command.
func FuzzLink(f *testing.F) {
	exit := frame.Frame{Type: frame.Exit, ID: 1, Payload: frame.Encode(frame.ExitBody{ExitCode: 1})}
	data := frame.Frame{Type: frame.Data, Stream: frame.Out, ID: 1, Payload: []byte("x")}
	connect := frame.Frame{Type: frame.Connect, ID: frame.ConnectionID(1), Payload: []byte(`{"kind":"proxy"}`)}
	f.Add(exit.Append(data.Append(nil)))
	f.Add(exit.Append(exit.Append(nil)))
	f.Add(frame.Frame{Type: frame.Drop, ID: frame.ConnectionID(1)}.Append(connect.Append(nil)))
	f.Fuzz(func(t *testing.T, wire []byte) {
		echo := func(_ context.Context, conn io.ReadWriteCloser) { _, _ = io.Copy(conn, conn) }
		l := line(t, map[frame.ConnectKind]Handler{frame.ToProxy: echo}, func(p *peer) {
			p.await(frame.Exec)
			go p.untilHungUp()
			_, _ = p.conn.Write(wire)
		})
		r, err := run(t, l, frame.ExecBody{MaxOutput: 10})
		if len(r.Stdout) > 10 || len(r.Stderr) > 10 || err != nil && r.ExitCode != -1 {
			t.Errorf("got %+v (%v)", r, err)
		}
		<-l.Done()
	})
}
