package sandbox_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// FuzzSequence: whatever frames a supervisor sends, each of them good by itself, in whatever order and for whomever, every
// request ends with what it may or with an error, nothing stays behind, and the container is removed.
func FuzzSequence(f *testing.F) {
	play := func(ops ...byte) []byte { return ops }
	const started, exit, reply, fail, data, credit, end, drop, connect = 0, 1, 2, 3, 4, 5, 6, 7, 8
	f.Add(play(started, 0, 0, 0, exit, 0, 0, 0))
	f.Add(play(exit, 0, 0, 1, started, 0, 0, 0, exit, 0, 0, 0))
	f.Add(play(data, 0, 1, 9, data, 1, 1, 9, reply, 1, 0, 1, reply, 2, 0, 0, exit, 3, 0, 2))
	f.Add(play(data, 1, 2, 3, data, 1, 1, 4, credit, 0, 0, 2, credit, 0, 0, 1, fail, 2, 0, 0))
	f.Add(play(connect, 200, 0, 0, data, 200, 1, 5, drop, 200, 0, 0, data, 200, 1, 5, connect, 201, 0, 1, end, 201, 1, 0, connect, 200, 0, 0))
	f.Add(play(reply, 0, 0, 0, reply, 1, 0, 2, reply, 2, 0, 3, reply, 3, 0, 4, exit, 4, 0, 3, exit, 5, 0, 4))
	f.Fuzz(func(t *testing.T, ops []byte) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		var first sync.Once
		d := &fakeDriver{play: func(c *fakeContainer) {
			defer c.conn.Close() // what comes later finds one that is gone
			first.Do(func() { perform(c, ops) })
		}}
		m := fakeManager(t, d)
		s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x", Network: "allowlist", Allowlist: []string{"listed.example"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		useAll(ctx, t, s)
		if ctx.Err() != nil {
			t.Error("a request did not end with its link")
		}
		if err := m.DestroyAll(t.Context()); err != nil {
			t.Error(err)
		}
		if len(d.made) != d.removed {
			t.Errorf("%d containers, %d removed", len(d.made), d.removed)
		}
	})
}

const sequenceRequests = 6

// useAll has one request of each kind under way at a time, and waits for all of them.
func useAll(ctx context.Context, t *testing.T, s *sandbox.Session) {
	const most = 32 << 10
	large := bytes.Repeat([]byte("x"), 300<<10) // more than a window
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		r, err := s.Exec(ctx, machine.Command{Script: "a", Stdin: large, MaxOutput: most, Changes: true, Spill: true, Timeout: time.Minute})
		if err == nil && (len(r.Stdout) > 2*most || len(r.Stderr) > 2*most || r.ExitCode < -1 || r.ExitCode > 255) {
			t.Errorf("a result with code %d and %d bytes", r.ExitCode, len(r.Stdout)+len(r.Stderr))
		}
	})
	work.Go(func() {
		if p, _, err := s.ReadFile(ctx, "b", 0, most); err == nil && len(p) > most {
			t.Errorf("read %d bytes", len(p))
		}
	})
	work.Go(func() {
		infos, err := s.List(ctx, "c")
		for _, i := range infos {
			if err == nil && (i.Name == "" || strings.ContainsAny(i.Name, "/\x00") || i.Size < 0) {
				t.Errorf("listed %+v", i)
			}
		}
	})
	work.Go(func() {
		r, info, err := s.Open(ctx, "d")
		if err != nil {
			return
		}
		defer r.Close()
		if n, err := io.Copy(io.Discard, r); err == nil && n != info.Size {
			t.Errorf("a file of %d bytes has %d", info.Size, n)
		}
	})
	work.Go(func() { _ = s.WriteFile(ctx, "e", large, 0) })
	work.Go(func() {
		p, err := s.Start(ctx, machine.Command{Script: "f"})
		if err != nil {
			return
		}
		if out, err := s.Output(ctx, p.ID, 0, most); err == nil && len(out.Data) > most {
			t.Errorf("output of %d bytes", len(out.Data))
		}
		_, _ = s.Kill(ctx, p.ID)
	})
}

// perform is a supervisor that greets as a good one, waits until all requests are there, and then sends what ops say: type,
// id, stream and body of each frame.
func perform(c *fakeContainer, ops []byte) {
	var hello frame.HelloBody
	f, err := c.in.Next()
	if err != nil || frame.Decode(f.Payload, &hello) != nil {
		return
	}
	welcome := c.welcome()
	welcome.Proxy = hello.Proxy
	if !c.send(frame.Frame{Type: frame.Welcome, Payload: frame.Encode(welcome)}) {
		return
	}
	asked, gone := make(chan uint32, sequenceRequests), make(chan struct{})
	go func() { // the host is always heard
		defer close(gone)
		for {
			f, err := c.in.Next()
			if err != nil {
				return
			}
			switch f.Type {
			case frame.Exec, frame.Read, frame.List, frame.Write:
				select {
				case asked <- f.ID:
				default:
				}
			}
		}
	}()
	defer func() { c.conn.Close(); <-gone }()
	var ids []uint32
	for len(ids) < sequenceRequests {
		select {
		case id := <-asked:
			ids = append(ids, id)
		case <-gone:
			return
		}
	}
	for ; len(ops) >= 4; ops = ops[4:] {
		if f := good(ops, ids); !c.send(f) {
			return
		}
	}
}

// good is a frame that by itself a supervisor may send.
func good(op []byte, ids []uint32) frame.Frame {
	f := frame.Frame{ID: ids[int(op[1])%len(ids)], Stream: op[2] % 3}
	if op[1] >= 200 {
		f.ID = frame.ConnectionID(uint32(op[1]) - 199)
	}
	kinds := []frame.Type{frame.Started, frame.Exit, frame.Reply, frame.Fail, frame.Data, frame.Credit, frame.End, frame.Drop, frame.Connect}
	f.Type = kinds[int(op[0])%len(kinds)]
	bodies := sequenceBodies()[f.Type]
	f.Payload = bodies[int(op[3])%len(bodies)]
	switch f.Type {
	case frame.Data, frame.Credit, frame.End:
	default:
		f.Stream = 0
	}
	return f
}

// sequenceBodies are those of each type, from the usual to the largest.
func sequenceBodies() map[frame.Type][][]byte {
	code := func(b frame.ExitBody) []byte { return frame.Encode(b) }
	credit := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	record := frame.Record{Path: []byte("a"), Mode: frame.TypeFile | 0o644, Size: 1 << 62}
	return map[frame.Type][][]byte{
		frame.Started: {[]byte(`{"pid":5}`), []byte(`{"pid":1}`)},
		frame.Exit: {
			code(frame.ExitBody{}), code(frame.ExitBody{ExitCode: -1, Signal: 9, Kill: &frame.KillBody{Rung: "uid", Survivors: 3}}),
			code(frame.ExitBody{Dropped: 1 << 62, DroppedErr: 1 << 61, Spill: frame.MaxSpill}),
			code(frame.ExitBody{Changes: &frame.ChangesBody{Added: [][]byte{[]byte("a\n\xff")}, Partial: true}}),
			code(frame.ExitBody{TimedOut: true, Canceled: true, OOM: true, PidsHit: true, DiskHit: true, Wall: 1 << 62, CPU: 1 << 62, PeakMemory: 1 << 62}),
		},
		frame.Reply: {
			[]byte("{}"), frame.Encode(frame.ReadReply{Size: 1 << 62}), frame.Encode(frame.ReadReply{Size: -1}),
			frame.Encode(frame.OutputReply{Offset: 1 << 62, Next: -1, Dropped: 1 << 62, Running: true}), frame.Encode(frame.KillBody{Rung: "sweep"}),
			frame.Encode(frame.Entry{Name: []byte("a"), Size: 1 << 62}), []byte("[]"),
		},
		frame.Fail: {
			frame.Encode(frame.FailBody{Code: frame.NotFound, Message: "\x1b[2J"}), frame.Encode(frame.FailBody{Code: frame.NoProcess}),
			frame.Encode(frame.FailBody{Code: "new", Message: strings.Repeat("x", 100_000)}),
		},
		frame.Data: {
			[]byte("x"), make([]byte, frame.MaxData), frame.Encode(frame.Entry{Name: []byte("a"), Size: 3}), frame.Encode(frame.Entry{Name: []byte("../a")}),
			frame.Encode(frame.Entry{Size: 1 << 62}), []byte("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), record.Append(nil), []byte("CONNECT "),
			[]byte("{"), []byte("xyz"),
		},
		frame.Credit:  {credit(1), credit(frame.WindowSize), credit(100 << 10), credit(1<<32 - 1), credit(0)},
		frame.End:     {nil},
		frame.Drop:    {nil},
		frame.Connect: {[]byte(`{"kind":"proxy"}`), []byte(`{"kind":"bridge"}`), []byte(`{"kind":"proxy","kind":"x"}`)},
	}
}
