package suite

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// receiveChecks are about Receive.
func receiveChecks() []Check {
	return []Check{
		{Name: "events", Run: events, Next: "number events from 1 without gaps and give each the platform's stable id"},
		{Name: "receive-first-frame", Run: firstFrame, Next: "refuse a stream that does not begin with Open with INVALID_ARGUMENT"},
		{Name: "receive-grease", Run: receiveGrease, Next: "ignore frames and fields that you do not know"},
		{Name: "window", Run: window, Next: "hold back events while Open.window of them are unacked"},
		{Name: "replay", Run: replay, Next: "on a new stream send unacked events again, in order, with their numbers"},
		{Name: "second-stream", Run: secondStream, Next: "end a stream when a newer one begins"},
		{Name: "rejected", Run: rejected, Next: "treat events in Ack.rejected as done with: never send them again, and go on with the next"},
		{Name: "ack-beyond", Run: ackBeyond, Next: "end a stream with INVALID_ARGUMENT when it acks what was never sent, and go on"},
		{Name: "kill-replay", Run: killReplay, Next: "ack the platform, or move the cursor, only after the host's ack"},
	}
}

// stream is a Receive stream of a check.
type stream struct {
	*wire.Stream
	t *T
}

// receive opens a stream, which ends with the check.
func (p *process) receive(window uint32) stream {
	return stream{wire.Open(p.t.ctx, p.channel, window), p.t}
}

// next returns the next event. If none arrives the check fails, with a message that says which one is missing.
func (s stream) next(missing string, args ...any) *channelv1.Event {
	e, err := s.Next(s.t.ctx, s.t.config.Patience)
	if err != nil {
		s.t.Fail(missing+": %w", append(args, err)...)
	}
	return e
}

// some posts n messages and returns their events, acked or not.
func (s stream) some(n int, ack bool) (list []*channelv1.Event) {
	s.t.post(n)
	for range n {
		e, err := s.Next(s.t.ctx, s.t.config.Patience)
		if errors.Is(err, wire.ErrQuiet) {
			s.t.missing(err)
		}
		s.t.must(err)
		if list = append(list, e); ack {
			s.t.must(s.Ack(e.GetSeq()))
		}
	}
	return list
}

// missing ends a check for which no event arrived: it is skipped if no platform could cause one.
func (t *T) missing(err error) {
	if t.stage == nil {
		t.Skip("no event came within %v: name a fake platform in %s", t.config.Patience, t.plugin.Source)
	}
	t.Fail("the fake platform has a message, but no event came within %v: %w", t.config.Patience, err)
}

// stays fails if the stream ends within Quiet.
func (s stream) stays(what string) {
	if err, over := s.Ended(s.t.config.Quiet); over {
		s.t.Fail("%s: %w", what, err)
	}
}

func events(t *T) {
	ids := map[string]bool{}
	for i, e := range t.ready().receive(32).some(3, true) {
		switch want := uint64(i + 1); {
		case e.GetSeq() != want:
			t.Fail("event %q has the number %d, want %d", e.GetEventId(), e.GetSeq(), want)
		case ids[e.GetEventId()]:
			t.Fail("two events have the id %q", e.GetEventId())
		case t.stage != nil && e.GetKind() == channelv1.EventKind_EVENT_KIND_MESSAGE && e.GetText() == "":
			t.Fail("event %q has no text", e.GetEventId())
		}
		ids[e.GetEventId()] = true
	}
}

func firstFrame(t *T) {
	p := t.ready()
	ctx, cancel := t.soon()
	defer cancel()
	st, err := p.channel.Receive(ctx)
	if err == nil {
		err = st.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Ack{Ack: &channelv1.Ack{Seq: 1}}})
	}
	if err == nil {
		_, err = st.Recv()
	}
	t.answers(err, "a stream that begins with an ack", codes.InvalidArgument, codes.FailedPrecondition)
	p.alive()
}

func receiveGrease(t *T) {
	p := t.ready()
	st := p.receive(32)
	for range 3 {
		t.must(st.Send(wire.Grease(&channelv1.ReceiveRequest{})))
	}
	st.stays("a frame of an unknown kind ends the stream")
	p.alive()
}

func window(t *T) {
	st := t.ready().receive(1)
	first := st.some(1, false)[0].GetSeq()
	t.post(2)
	wait := t.config.Quiet
	if t.stage == nil {
		wait = t.config.Patience / 2 // events come whenever the plugin sends them
	}
	e, err := st.Next(t.ctx, wait)
	if err == nil {
		t.Fail("with a window of 1 event %d came before event %d was acked", e.GetSeq(), first)
	}
	if !errors.Is(err, wire.ErrQuiet) {
		t.must(err)
	}
	t.must(st.Ack(first))
	if e := st.next("after the ack of event %d the next one does not come", first); e.GetSeq() != first+1 {
		t.Fail("event %d came after event %d", e.GetSeq(), first)
	}
}

func replay(t *T) {
	p := t.ready()
	st := p.receive(2)
	t.post(1)
	before := st.some(1, false)
	// A plugin may wait for each ack, and one that polls waits for each batch: a second event is checked only if it is sent.
	e, err := st.Next(t.ctx, t.config.Quiet)
	if err == nil {
		before = append(before, e)
	} else if !errors.Is(err, wire.ErrQuiet) {
		t.must(err)
	}
	st.Close()
	again := p.receive(2)
	for _, want := range before {
		got := again.next("event %d was not acked and does not come again on the next stream", want.GetSeq())
		if got.GetSeq() != want.GetSeq() || got.GetEventId() != want.GetEventId() {
			t.Fail("event %d %q was not acked, and what comes on the next stream is event %d %q",
				want.GetSeq(), want.GetEventId(), got.GetSeq(), got.GetEventId())
		}
	}
}

func secondStream(t *T) {
	p := t.ready()
	first := p.receive(4)
	p.alive() // the plugin has the stream only after it has read Open
	first.stays("the stream ended by itself")
	second := p.receive(4)
	if _, over := first.Ended(t.config.Patience); !over {
		t.Fail("the first stream is open %v after a second one has begun", t.config.Patience)
	}
	second.stays("the second stream ended as well")
}

func rejected(t *T) {
	p := t.ready()
	st := p.receive(4)
	e := st.some(1, false)[0]
	first, id := e.GetSeq(), e.GetEventId()
	refuse := func(seq uint64) *channelv1.Rejection {
		return wire.Grease(&channelv1.Rejection{Seq: seq, Reason: "conform: the host refuses this event"})
	}
	t.must(st.Ack(first, refuse(first), refuse(first+100))) // the plugin does not know the other one
	if got := st.some(1, false)[0]; got.GetSeq() != first+1 || got.GetEventId() == id {
		t.Fail("event %d %q was rejected, and what comes next is event %d %q", first, id, got.GetSeq(), got.GetEventId())
	}
	st.Finish(t.config.Patience) // only what the plugin has read is rejected
	e = p.receive(4).next("event %d was not acked and does not come again on the next stream", first+1)
	if e.GetSeq() != first+1 {
		t.Fail("event %d was rejected, and the next stream begins with event %d", first, e.GetSeq())
	}
	p.alive()
}

func ackBeyond(t *T) {
	p := t.ready()
	st := p.receive(4)
	t.must(st.Ack(1 << 40))
	err, over := st.Ended(t.config.Patience)
	if !over {
		t.Fail("an ack of an event that was never sent is accepted")
	}
	if status.Code(err) == codes.Unavailable {
		t.Fail("an ack of an event that was never sent ends the connection: %w", err)
	}
	p.alive()
	p.receive(4).stays("afterwards a new stream ends at once")
}

func killReplay(t *T) {
	if !t.plugin.Redelivers {
		t.Skip("the platform does not redeliver: set redelivers in %s if it does", t.plugin.Source)
	}
	p := t.ready()
	before := p.receive(4).some(1, false)[0].GetEventId()
	p.Kill()
	p = t.ready()
	e := p.receive(4).next("event %q was not acked when the process was killed, and the next process does not deliver it", before)
	if e.GetEventId() != before {
		t.Fail("event %q comes from the next process as %q: ids have to be stable", before, e.GetEventId())
	}
	p.alive()
}
