package conform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// streamChecks are about Receive.
func streamChecks() []check {
	return []check{
		{name: "events", kind: plugin.Channel, run: events, next: "number events from 1 without gaps and give each the platform's stable id"},
		{name: "receive-first-frame", kind: plugin.Channel, run: firstFrame, next: "refuse a stream that does not begin with Open with INVALID_ARGUMENT"},
		{name: "receive-grease", kind: plugin.Channel, run: receiveGrease, next: "ignore frames and fields that you do not know"},
		{name: "window", kind: plugin.Channel, run: window, next: "hold back events while Open.window of them are unacked"},
		{name: "replay", kind: plugin.Channel, run: replay, next: "on a new stream send unacked events again, in order, with their numbers"},
		{name: "second-stream", kind: plugin.Channel, run: secondStream, next: "end a stream when a newer one begins"},
		{name: "rejected", kind: plugin.Channel, run: rejected, next: "treat events in Ack.rejected as done with: never send them again, and go on with the next"},
		{name: "ack-beyond", kind: plugin.Channel, run: ackBeyond, next: "end a stream with INVALID_ARGUMENT when it acks what was never sent, and go on"},
		{name: "kill-replay", kind: plugin.Channel, run: killReplay, next: "ack the platform, or move the cursor, only after the host's ack"},
	}
}

// stream is one Receive stream from the host's side.
type stream struct {
	wire   grpc.BidiStreamingClient[channelv1.ReceiveRequest, channelv1.ReceiveResponse]
	frames chan *channelv1.ReceiveResponse
	failed chan error // one, when the stream ends
	close  context.CancelFunc
}

// receive opens a stream.
func (s *subject) receive(ctx context.Context, window uint32) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	wire, err := s.channel.Receive(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("receive: %w", err)
	}
	open := &channelv1.Open{StreamId: "conform", Window: window}
	if err := wire.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Open{Open: grease(open)}}); err != nil {
		cancel()
		return nil, fmt.Errorf("open the stream: %w", err)
	}
	st := &stream{wire: wire, frames: make(chan *channelv1.ReceiveResponse), failed: make(chan error, 1), close: cancel}
	go st.read(ctx) // ends with ctx, at the latest when the check's process is closed
	return st, nil
}

func (st *stream) read(ctx context.Context) {
	for {
		frame, err := st.wire.Recv()
		if err != nil {
			st.failed <- err
			return
		}
		select {
		case st.frames <- frame:
		case <-ctx.Done():
			st.failed <- ctx.Err()
			return
		}
	}
}

var errQuiet = errors.New("nothing came")

// next waits for an event and checks it as the host would.
func (st *stream) next(ctx context.Context, within time.Duration) (*channelv1.Event, error) {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case frame := <-st.frames:
			e := frame.GetEvent()
			if e == nil {
				continue // frames of other kinds are for versions to come
			}
			if err := plugin.CheckEvent(e); err != nil {
				return nil, fmt.Errorf("event %d is malformed: %w", e.GetSeq(), err)
			}
			return e, nil
		case err := <-st.failed:
			st.failed <- err
			return nil, fmt.Errorf("the stream ended: %w", err)
		case <-late.C:
			return nil, errQuiet
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (st *stream) ack(seq uint64) error { return st.reject(seq) }

// reject acks up to seq; those in refused the host never takes.
func (st *stream) reject(seq uint64, refused ...uint64) error {
	ack := grease(&channelv1.Ack{Seq: seq})
	for _, r := range refused {
		ack.Rejected = append(ack.Rejected, grease(&channelv1.Rejection{Seq: r, Reason: "conform: the host refuses this event"}))
	}
	return st.wire.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Ack{Ack: ack}})
}

// ended waits for the stream to end and returns its status.
func (st *stream) ended(within time.Duration) (error, bool) {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case <-st.frames:
		case err := <-st.failed:
			st.failed <- err
			return err, true
		case <-late.C:
			return nil, false
		}
	}
}

// some posts n messages and returns the events that they become, acked or not.
func (b *bench) some(ctx context.Context, st *stream, n int, ack bool) ([]*channelv1.Event, error) {
	if err := b.post(n); err != nil {
		return nil, err
	}
	var list []*channelv1.Event
	for range n {
		e, err := st.next(ctx, b.patience())
		if errors.Is(err, errQuiet) {
			err = b.missing(err)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if ack {
			if err := st.ack(e.GetSeq()); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// listening is a configured process with an open stream.
func (b *bench) listening(ctx context.Context, window uint32) (*subject, *stream, error) {
	s, err := b.ready(ctx)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.receive(ctx, window)
	return s, st, err
}

func events(ctx context.Context, b *bench) error {
	_, st, err := b.listening(ctx, 32)
	if err != nil {
		return err
	}
	list, err := b.some(ctx, st, 3, true)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for i, e := range list {
		if want := uint64(i + 1); e.GetSeq() != want {
			return fmt.Errorf("event %q has the number %d, want %d", e.GetEventId(), e.GetSeq(), want)
		}
		if ids[e.GetEventId()] {
			return fmt.Errorf("two events have the id %q", e.GetEventId())
		}
		ids[e.GetEventId()] = true
		if b.platform != nil && e.GetKind() == channelv1.EventKind_EVENT_KIND_MESSAGE && e.GetText() == "" {
			return fmt.Errorf("event %q has no text", e.GetEventId())
		}
	}
	return nil
}

func firstFrame(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	wire, err := s.channel.Receive(call)
	if err == nil {
		err = wire.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Ack{Ack: &channelv1.Ack{Seq: 1}}})
	}
	if err == nil {
		_, err = wire.Recv()
	}
	if err := code(err, "a stream that begins with an ack", codes.InvalidArgument, codes.FailedPrecondition); err != nil {
		return err
	}
	return s.alive(ctx)
}

func receiveGrease(ctx context.Context, b *bench) error {
	s, st, err := b.listening(ctx, 32)
	if err != nil {
		return err
	}
	for range 3 {
		if err := st.wire.Send(grease(&channelv1.ReceiveRequest{})); err != nil {
			return err
		}
	}
	if err, over := st.ended(b.quiet()); over {
		return fmt.Errorf("a frame of an unknown kind ends the stream: %w", err)
	}
	return s.alive(ctx)
}

func window(ctx context.Context, b *bench) error {
	_, st, err := b.listening(ctx, 1)
	if err != nil {
		return err
	}
	first, err := b.some(ctx, st, 1, false)
	if err != nil {
		return err
	}
	if err := b.post(2); err != nil {
		return err
	}
	wait := b.quiet()
	if b.platform == nil {
		wait = b.patience() / 2 // events come when the plugin likes
	}
	if e, err := st.next(ctx, wait); err == nil {
		return fmt.Errorf("with a window of 1 event %d came before event %d was acked", e.GetSeq(), first[0].GetSeq())
	} else if !errors.Is(err, errQuiet) {
		return err
	}
	if err := st.ack(first[0].GetSeq()); err != nil {
		return err
	}
	e, err := st.next(ctx, b.patience())
	if err != nil {
		return fmt.Errorf("after the ack of event %d the next one does not come: %w", first[0].GetSeq(), err)
	}
	if e.GetSeq() != first[0].GetSeq()+1 {
		return fmt.Errorf("event %d came after event %d", e.GetSeq(), first[0].GetSeq())
	}
	return nil
}

func replay(ctx context.Context, b *bench) error {
	s, st, err := b.listening(ctx, 2)
	if err != nil {
		return err
	}
	if err := b.post(1); err != nil {
		return err
	}
	before, err := b.some(ctx, st, 1, false)
	if err != nil {
		return err
	}
	// A plugin may wait for each ack, and one that polls does so for each batch: a second event is held to the contract if it is sent.
	switch e, err := st.next(ctx, b.quiet()); {
	case err == nil:
		before = append(before, e)
	case !errors.Is(err, errQuiet):
		return err
	}
	st.close()
	again, err := s.receive(ctx, 2)
	if err != nil {
		return err
	}
	for _, want := range before {
		got, err := again.next(ctx, b.patience())
		if err != nil {
			return fmt.Errorf("event %d was not acked and does not come again on the next stream: %w", want.GetSeq(), err)
		}
		if got.GetSeq() != want.GetSeq() || got.GetEventId() != want.GetEventId() {
			return fmt.Errorf("event %d %q was not acked, and what comes on the next stream is event %d %q",
				want.GetSeq(), want.GetEventId(), got.GetSeq(), got.GetEventId())
		}
	}
	return nil
}

func secondStream(ctx context.Context, b *bench) error {
	s, first, err := b.listening(ctx, 4)
	if err != nil {
		return err
	}
	// A stream is only there for the plugin when it has read its Open.
	if err := s.alive(ctx); err != nil {
		return err
	}
	if err, over := first.ended(b.quiet()); over {
		return fmt.Errorf("the stream ended by itself: %w", err)
	}
	second, err := s.receive(ctx, 4)
	if err != nil {
		return err
	}
	if _, over := first.ended(b.patience()); !over {
		return fmt.Errorf("the first stream is open %v after a second one has begun", b.patience())
	}
	if err, over := second.ended(b.quiet()); over {
		return fmt.Errorf("the second stream ended as well: %w", err)
	}
	return nil
}

func rejected(ctx context.Context, b *bench) error {
	s, st, err := b.listening(ctx, 4)
	if err != nil {
		return err
	}
	list, err := b.some(ctx, st, 1, false)
	if err != nil {
		return err
	}
	first, id := list[0].GetSeq(), list[0].GetEventId()
	if err := st.reject(first, first, first+100); err != nil { // of the other the plugin knows nothing
		return err
	}
	if list, err = b.some(ctx, st, 1, false); err != nil {
		return fmt.Errorf("event %d was rejected, and then: %w", first, err)
	}
	if got := list[0]; got.GetSeq() != first+1 || got.GetEventId() == id {
		return fmt.Errorf("event %d %q was rejected, and what comes next is event %d %q", first, id, got.GetSeq(), got.GetEventId())
	}
	st.close()
	again, err := s.receive(ctx, 4)
	if err != nil {
		return err
	}
	e, err := again.next(ctx, b.patience())
	if err != nil {
		return fmt.Errorf("event %d was not acked and does not come again on the next stream: %w", first+1, err)
	}
	if e.GetSeq() != first+1 {
		return fmt.Errorf("event %d was rejected, and the next stream begins with event %d", first, e.GetSeq())
	}
	return s.alive(ctx)
}

func ackBeyond(ctx context.Context, b *bench) error {
	s, st, err := b.listening(ctx, 4)
	if err != nil {
		return err
	}
	if err := st.ack(1 << 40); err != nil {
		return err
	}
	err, over := st.ended(b.patience())
	if !over {
		return errors.New("an ack of an event that was never sent is taken without a word")
	}
	if status.Code(err) == codes.Unavailable {
		return fmt.Errorf("an ack of an event that was never sent ends the connection: %w", err)
	}
	if err := s.alive(ctx); err != nil {
		return err
	}
	again, err := s.receive(ctx, 4)
	if err != nil {
		return err
	}
	if err, over := again.ended(b.quiet()); over {
		return fmt.Errorf("afterwards a new stream ends at once: %w", err)
	}
	return nil
}

func killReplay(ctx context.Context, b *bench) error {
	if !b.kit.file.Fake.Redelivers {
		return skip("the platform does not redeliver: set redelivers = true in [fake] of %s if it does", FileName)
	}
	s, st, err := b.listening(ctx, 4)
	if err != nil {
		return err
	}
	before, err := b.some(ctx, st, 1, false)
	if err != nil {
		return err
	}
	s.Kill()
	s, st, err = b.listening(ctx, 4)
	if err != nil {
		return err
	}
	e, err := st.next(ctx, b.patience())
	if err != nil {
		return fmt.Errorf("event %q was not acked when the process was killed, and the next process does not deliver it: %w", before[0].GetEventId(), err)
	}
	if e.GetEventId() != before[0].GetEventId() {
		return fmt.Errorf("event %q comes from the next process as %q: ids have to be stable", before[0].GetEventId(), e.GetEventId())
	}
	return s.alive(ctx)
}
