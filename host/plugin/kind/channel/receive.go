package channel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

type eventStream = grpc.BidiStreamingClient[channelv1.ReceiveRequest, channelv1.ReceiveResponse]

// Receive receives events until ctx ends or the instance has to stop (nil), or the stream breaks. It calls handle for each event, in order,
// from its own goroutine; window bounds the events that are not done.
//
// The handler calls done once for each event, from any goroutine: with nil when the event is durable, with a *RejectedError if it never can
// be, and with another error if it is not, which breaks the stream. An event is acked only when it and every earlier one are done; the plugin
// sends events without an ack again on the next stream. A call after Receive has returned has no effect.
func (c *Client) Receive(ctx context.Context, window int, handle func(e Event, done func(error))) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.Draining, func() { cancel(context.Canceled) })()
	defer context.AfterFunc(c.Gone, func() { cancel(context.Canceled) })()

	stream, err := c.open(ctx, window)
	if err != nil {
		return c.receiveEnded(ctx, err)
	}
	acks := newAcks(window)
	acks.lease = c.Lease
	acker := make(chan struct{})
	go func() {
		defer close(acker)
		acks.send(ctx, stream, cancel)
	}()
	err = c.receive(ctx, stream, acks, cancel, handle)
	cancel(err)
	<-acker
	return c.receiveEnded(ctx, err)
}

func (c *Client) open(ctx context.Context, window int) (eventStream, error) {
	stream, err := c.rpc.Receive(ctx)
	if err != nil {
		return nil, err
	}
	open := &channelv1.Open{StreamId: rand.Text(), Window: uint32(window)}
	return stream, stream.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Open{Open: open}})
}

// receiveEnded returns nil for an intended end, and otherwise the failure.
func (c *Client) receiveEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("receive from %s: %w", c.Instance, cause)
	}
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("receive from %s: %w", c.Instance, err)
}

// receive reads frames until the stream ends. Frames of kinds that it does not know are ignored.
func (c *Client) receive(ctx context.Context, stream eventStream, acks *acks, fail context.CancelCauseFunc, handle func(Event, func(error))) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if r := frame.GetRenew(); r != nil {
			acks.renew(r.GetMark())
		}
		wire := frame.GetEvent()
		if wire == nil {
			continue
		}
		if err := acks.add(wire.GetSeq()); err != nil {
			return err
		}
		done := once(acks, wire.GetSeq(), fail)
		event, err := eventFromWire(c.Instance, wire)
		if err != nil {
			done(c.dropped(err))
			continue
		}
		handle(event, done)
	}
}

// dropped logs an invalid event, and returns the error for its ack. Every such event is acked, or it would come again for ever.
func (c *Client) dropped(why error) error {
	if errors.Is(why, errSkip) {
		return nil
	}
	c.Log.Warn("dropped a malformed event", "error", why.Error())
	return &RejectedError{why}
}

// RejectedError is the error of done for an event that can never be accepted. Its ack says so, and the plugin does not send it again.
type RejectedError struct{ Why error }

func (r *RejectedError) Error() string { return "rejected: " + r.Why.Error() }

// Unwrap returns the reason.
func (r *RejectedError) Unwrap() error { return r.Why }

// once returns the done function of one event.
func once(a *acks, seq uint64, fail context.CancelCauseFunc) func(error) {
	var called sync.Once
	return func(err error) {
		called.Do(func() {
			rejected := (*RejectedError)(nil)
			if err != nil && !errors.As(err, &rejected) {
				fail(fmt.Errorf("accept event %d: %w", seq, err))
				return
			}
			a.done(seq, rejected)
		})
	}
}

// acks turns events that are done in any order into cumulative acks in order. Acks that come while one is being sent are sent as one.
type acks struct {
	mu     sync.Mutex
	window int
	first  uint64 // seq of open[0]
	open   []bool // done or not, from first on
	ready  chan struct{}
	acked  uint64 // highest seq that may be acked
	owed   bool   // an ack is due

	lease kind.Lease // nil for none
	asked *uint64    // mark of the Renew that is not answered yet

	rejected []*channelv1.Rejection // done, and in no ack yet
}

func newAcks(window int) *acks {
	return &acks{window: max(window, 1), ready: make(chan struct{}, 1)}
}

// add adds the seq of the next event, which must follow the previous one and be within the window.
func (a *acks) add(seq uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == 0 {
		if seq == 0 {
			return errors.New("the plugin broke the protocol: event with seq 0")
		}
		a.first, a.acked = seq, seq-1
	}
	if want := a.first + uint64(len(a.open)); seq != want {
		return fmt.Errorf("the plugin broke the protocol: event with seq %d after %d", seq, want-1)
	}
	if len(a.open) >= a.window {
		return fmt.Errorf("the plugin broke the protocol: more than %d unacked events", a.window)
	}
	a.open = append(a.open, false)
	return nil
}

// maxReason is the most bytes of Rejection.reason.
const maxReason = 256

// done marks seq as done and advances the ack.
func (a *acks) done(seq uint64, rejected *RejectedError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[seq-a.first] = true
	if rejected != nil {
		reason := kind.Text(rejected.Why.Error(), maxReason)
		a.rejected = append(a.rejected, &channelv1.Rejection{Seq: seq, Reason: reason})
	}
	n := 0
	for n < len(a.open) && a.open[n] {
		n++
	}
	if n == 0 {
		return
	}
	a.open = append(a.open[:0], a.open[n:]...)
	a.first += uint64(n)
	a.acked, a.owed = a.first-1, true
	a.wake()
}

// wake lets send look for what is due. a.mu is held.
func (a *acks) wake() {
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

// renew asks send to answer a Renew. A plugin sends the next one after the answer; of several, only the last is answered.
func (a *acks) renew(mark uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease != nil {
		a.asked = &mark
		a.wake()
	}
}

// answer returns the lease that is due; nil if nobody has asked. The plugin counts its duration from the question, which came before this look
// at it: however late the answer arrives, the plugin's lease does not outlast the host's.
func (a *acks) answer() *channelv1.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		return nil
	}
	mark := *a.asked
	a.asked = nil
	// The epoch is read first: a duration must not belong to an epoch that began after it.
	epoch := a.lease.Epoch()
	return &channelv1.Lease{
		Epoch: epoch, Duration: durationpb.New(max(a.lease.Left(), 0)), Mark: mark, Sending: durationpb.New(max(a.lease.Sending(), 0)),
	}
}

// next returns the ack that is due, with the rejections that it covers; nil if there is none.
func (a *acks) next() *channelv1.Ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.owed {
		return nil
	}
	a.owed = false
	ack := &channelv1.Ack{Seq: a.acked}
	var later []*channelv1.Rejection
	for _, r := range a.rejected {
		if r.GetSeq() <= a.acked {
			ack.Rejected = append(ack.Rejected, r)
		} else {
			later = append(later, r)
		}
	}
	a.rejected = later
	return ack
}

// send writes acks and leases until ctx ends.
func (a *acks) send(ctx context.Context, stream eventStream, fail context.CancelCauseFunc) {
	for {
		select {
		case <-a.ready:
		case <-ctx.Done():
			return
		}
		if l := a.answer(); l != nil && stream.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Lease{Lease: l}}) != nil {
			return // Recv returns the error
		}
		if ack := a.next(); ack != nil && stream.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Ack{Ack: ack}}) != nil {
			return
		}
	}
}
