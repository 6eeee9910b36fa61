package link

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func dialedFrame(id uint32) frame.Frame { return frame.Frame{Type: frame.Dialed, ID: id} }

// A supervisor that has been taken over gets nothing by lying about connections.
func TestHostileDial(t *testing.T) {
	data := func(id uint32, stream uint8) frame.Frame {
		return frame.Frame{Type: frame.Data, Stream: stream, ID: id, Payload: make([]byte, frame.MaxData)}
	}
	for name, attack := range map[string]func(p *peer, id uint32){
		"opens twice":          func(p *peer, id uint32) { p.send(dialedFrame(id), dialedFrame(id)) },
		"opens something else": func(p *peer, id uint32) { p.send(dialedFrame(id), dialedFrame(id+7)) },
		"starts a process": func(p *peer, id uint32) {
			p.send(frame.Frame{Type: frame.Started, ID: id, Payload: frame.Encode(frame.StartedBody{PID: 5})})
		},
		"has a result": func(p *peer, id uint32) { p.exit(id, frame.ExitBody{}) },
		"floods": func(p *peer, id uint32) {
			for p.send(dialedFrame(id)); p.send(data(id, frame.Out)); {
			}
		},
		"sends on a stream that is none": func(p *peer, id uint32) { p.send(dialedFrame(id), data(id, frame.In)) },
		"gives credit without end": func(p *peer, id uint32) {
			p.send(dialedFrame(id), frame.Frame{Type: frame.Credit, Stream: frame.In, ID: id, Payload: []byte{0x7f, 0xff, 0xff, 0xff}})
		},
		"hangs up": func(_ *peer, _ uint32) {},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			l := line(t, nil, func(p *peer) {
				if id := p.await(frame.Dial); id != 0 {
					attack(p, id)
				}
			})
			c, err := l.Dial(t.Context(), 80)
			if err == nil {
				<-l.Done() // before anything is read
				_, err = io.Copy(io.Discard, c)
				c.Close()
			}
			if !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			<-l.Done()
			if n := l.dialed.Load(); n != 0 {
				t.Errorf("%d connections are left", n)
			}
		})
	}
}

// A list of ports is checked.
func TestHostileListening(t *testing.T) {
	many := make([]uint16, frame.MaxListened+1)
	for i := range many {
		many[i] = uint16(i + 1)
	}
	for name, r := range map[string]frame.ListenReply{"zero": {Ports: []uint16{0}}, "twice": {Ports: []uint16{5, 5}}, "many": {Ports: many}} {
		t.Run(name, func(t *testing.T) {
			l := line(t, nil, func(p *peer) { p.reply(p.await(frame.Listen), r) })
			if _, _, err := l.Listening(t.Context()); !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			<-l.Done()
		})
	}
}

// A caller that gives up cancels what the supervisor is about to open; one that does not answer at all ends the link.
func TestDialIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line(t, nil, func(p *peer) {
			id := p.await(frame.Dial)
			if p.await(frame.Stop) == id {
				p.reply(id, struct{}{})
			}
			p.await(frame.Dial)
			p.untilHungUp()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Dial(ctx, 80); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := l.Dial(t.Context(), 80); !errors.Is(err, machine.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		<-l.Done()
	})
}

func TestDialRefused(t *testing.T) {
	l := line(t, nil, func(p *peer) {
		p.send(frame.Frame{Type: frame.Fail, ID: p.await(frame.Dial), Payload: frame.Encode(frame.FailBody{Code: frame.NotFound, Message: "nothing listens on port 80"})})
		id := p.await(frame.Dial)
		p.send(dialedFrame(id), frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("bye")})
		p.reply(id, struct{}{})
		p.untilHungUp()
	})
	if _, err := l.Dial(t.Context(), 80); !errors.Is(err, machine.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	c, err := l.Dial(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a write after the end: %v", err)
	}
	if err := c.SetDeadline(time.Time{}); err == nil || c.RemoteAddr().String() != "sandbox:80" {
		t.Errorf("%v, %v", err, c.RemoteAddr())
	}
}
