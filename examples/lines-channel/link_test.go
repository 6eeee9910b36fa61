package main

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// taker is an inbox that has everything on disk at once.
type taker struct{ events []channel.Event }

func (in *taker) Deliver(context.Context, channel.Event) error { return nil }

func (in *taker) DeliverAsync(_ context.Context, e channel.Event, done func(error)) error {
	in.events = append(in.events, e)
	done(nil)
	return nil
}

func (in *taker) Status(channel.State, string) {}

func (in *taker) LoginCode(string, string) {}

// FuzzLink lets the other end say anything. The link takes it or ends; it neither hangs nor panics.
func FuzzLink(f *testing.F) {
	f.Add([]byte(`{"type":"event","id":"1","conversation":"c","sender":"ann","text":"hi"}` + "\n"))
	f.Add([]byte(`{"type":"sent","key":"k"}` + "\n" + `{"type":"duplicate","key":"k"}` + "\n"))
	f.Add([]byte("{\"type\":7}\nnull\n[]\n"))
	f.Add([]byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		deadline := time.Now().Add(time.Minute)
		theirs.SetDeadline(deadline)
		l := newLink(ours)
		answer := make(chan line, 1)
		l.answers["k"] = answer
		ended := make(chan error, 1)
		go func() { ended <- l.run(t.Context(), &taker{}) }()
		go io.Copy(io.Discard, theirs) // ends with the pipe
		theirs.Write(said)             // fails when the link had enough
		theirs.Close()
		if err := <-ended; err == nil {
			t.Error("the link ended without a reason")
		}
		if time.Now().After(deadline) {
			t.Error("the link hung")
		}
	})
}
