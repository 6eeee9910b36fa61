package link

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// FuzzKept: whatever a supervisor says about its commands, each has a place of its own.
func FuzzKept(f *testing.F) {
	line := func(e frame.KeptEntry) []byte { return append(frame.Encode(e), '\n') }
	good := frame.KeptEntry{Request: 1, Process: 1, PID: 7, Script: []byte("true"), Started: 1}
	f.Add(line(good))
	f.Add(append(line(good), line(good)...))
	f.Add(line(frame.KeptEntry{Request: 1 << 31, Process: 1, PID: 7, Started: 1}))
	f.Add(line(frame.KeptEntry{Request: 1, Process: 1, PID: 7, Started: 1, Exit: &frame.ExitBody{ExitCode: 300}}))
	f.Fuzz(func(t *testing.T, lines []byte) {
		entries, err := parseKept(bytes.NewReader(lines), 65)
		if err != nil {
			if !errors.Is(err, frame.ErrProtocol) {
				t.Errorf("wrong kind: %v", err)
			}
			return
		}
		requests, numbers := map[uint32]bool{}, map[int]bool{}
		for _, e := range entries {
			if requests[e.Request] || numbers[e.Process] || frame.IsConnection(e.Request) || e.Request == 0 || e.PID <= 1 || e.Process < 0 {
				t.Errorf("accepted %+v", e)
			}
			requests[e.Request], numbers[e.Process] = true, true
		}
		if len(entries) > 65 {
			t.Errorf("accepted %d commands", len(entries))
		}
	})
}

// adopted plays the supervisor's part in Adopt, with that secret and list, and returns what the host makes of it.
func adopted(t *testing.T, secret []byte, epoch uint64, kept ...frame.KeptEntry) (*Link, *frame.Reader, []frame.KeptEntry, error) {
	t.Helper()
	host, inside := net.Pipe()
	l := New(Config{Stream: host})
	p := &peer{inside, frame.NewReader(inside, frame.SupervisorSide), frame.NewWriter(inside)}
	played := make(chan struct{})
	go func() {
		defer close(played)
		defer inside.Close()
		var asked frame.AdoptBody
		if f, err := p.in.Next(); err != nil || frame.Decode(f.Payload, &asked) != nil {
			return
		}
		mine := frame.AdoptBody{Challenge: bytes.Repeat([]byte{9}, frame.SecretSize), Epoch: 4}
		mine.Proof = frame.SupervisorSide.Prove(secret, frame.Exchange{Host: asked, Supervisor: mine})
		p.send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(mine)})
		if asked.Epoch <= mine.Epoch {
			p.untilHungUp()
			return
		}
		id := p.await(frame.Kept)
		for _, e := range kept {
			p.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: append(frame.Encode(e), '\n')})
		}
		p.reply(id, struct{}{})
		p.exit(kept[len(kept)-1].Request, frame.ExitBody{ExitCode: 4})
		p.exit(p.await(frame.Exec), frame.ExitBody{})
		p.untilHungUp()
	}()
	t.Cleanup(func() {
		host.Close()
		<-played
	})
	reader, entries, err := Adopt(host, time.Minute, bytes.Repeat([]byte{7}, frame.SecretSize), epoch, 2)
	return l, reader, entries, err
}

func TestAdopt(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	right := bytes.Repeat([]byte{7}, frame.SecretSize)
	kept := []frame.KeptEntry{
		{Request: 3, Process: 1, PID: 7, Script: []byte("true"), Started: 1, Exit: &frame.ExitBody{ExitCode: 2}},
		{Request: 8, Process: 2, PID: 9, Script: []byte("sleep 9"), Started: 1},
		{Request: 9, Process: 3, PID: 11, Script: []byte("sleep 9"), Started: 1},
	}
	t.Run("goes on", func(t *testing.T) {
		l, reader, entries, err := adopted(t, right, 5, kept[:2]...)
		if err != nil || len(entries) != 2 {
			t.Fatal(entries, err)
		}
		over, open := l.Resume(entries[0]), l.Resume(entries[1])
		go l.Serve(reader)
		<-over.Done()
		<-open.Done()
		if over.Result().ExitCode != 2 || open.Result().ExitCode != 4 {
			t.Errorf("verdicts %+v and %+v", over.Result(), open.Result())
		}
		c := l.NewCall()
		if err := c.Begin(frame.ExecBody{}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(t.Context(), nil); err != nil || c.id != 9 {
			t.Errorf("a command after them has id %d (%v)", c.id, err)
		}
		l.Close(errors.New("the test is over"))
	})
	t.Run("a stranger", func(t *testing.T) {
		if _, _, _, err := adopted(t, bytes.Repeat([]byte{8}, frame.SecretSize), 5, kept[0]); !errors.Is(err, ErrStranger) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an older host", func(t *testing.T) {
		for _, epoch := range []uint64{0, 3, 4} {
			if _, _, _, err := adopted(t, right, epoch, kept[0]); !errors.Is(err, frame.ErrTaken) {
				t.Errorf("epoch %d: %v", epoch, err)
			}
		}
	})
	t.Run("a peer that says nothing", func(t *testing.T) {
		host, inside := net.Pipe()
		defer inside.Close()
		if _, _, err := Adopt(host, time.Millisecond, right, 5, 2); err == nil {
			t.Error("it was adopted")
		}
	})
	t.Run("too many", func(t *testing.T) {
		if _, _, _, err := adopted(t, right, 5, kept...); !errors.Is(err, frame.ErrProtocol) {
			t.Errorf("got %v", err)
		}
	})
}
