package plugin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

type eventStream = grpc.BidiStreamingClient[channelv1.ReceiveRequest, channelv1.ReceiveResponse]

// Receive takes events until ctx ends, the instance is to stop (both nil), or the stream breaks. It calls handle for each
// event, in order, from its own goroutine; window bounds the events that are not done.
//
// done is called once for each event, from any goroutine: with nil when the event is durable, with an error when
// it is not, which breaks the stream. The plugin learns of an event only when it and every earlier one are done; what
// it did not learn of, it sends again on the next stream. A call after Receive has returned has no effect.
func (c *Client) Receive(ctx context.Context, window int, handle func(e Event, done func(error))) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.draining, func() { cancel(context.Canceled) })()
	defer context.AfterFunc(c.gone, func() { cancel(context.Canceled) })()

	stream, err := c.open(ctx, window)
	if err != nil {
		return c.receiveEnded(ctx, err)
	}
	acks := newAcks(window)
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
	stream, err := c.channel.Receive(ctx)
	if err != nil {
		return nil, err
	}
	open := &channelv1.Open{StreamId: rand.Text(), Window: uint32(window)}
	return stream, stream.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Open{Open: open}})
}

// receiveEnded tells an end that was asked for from a failure.
func (c *Client) receiveEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("receive from %s: %w", c.instance, cause)
	}
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("receive from %s: %w", c.instance, err)
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
		wire := frame.GetEvent()
		if wire == nil {
			continue
		}
		if err := acks.add(wire.GetSeq()); err != nil {
			return err
		}
		done := once(acks, wire.GetSeq(), fail)
		event, err := eventFromWire(c.instance, wire, time.Now())
		if err != nil {
			c.dropped(err)
			done(nil)
			continue
		}
		handle(event, done)
	}
}

// dropped logs an event that will never be wanted. It is acked, or it would come again for ever.
func (c *Client) dropped(why error) {
	if !errors.Is(why, errSkip) {
		c.log.Warn("dropped a malformed event", "error", why.Error())
	}
}

// once makes the done function of one event.
func once(a *acks, seq uint64, fail context.CancelCauseFunc) func(error) {
	var called sync.Once
	return func(err error) {
		called.Do(func() {
			if err != nil {
				fail(fmt.Errorf("take over event %d: %w", seq, err))
				return
			}
			a.done(seq)
		})
	}
}

// acks turns events that are done in any order into cumulative acks in order. Acks that gather while one is on its
// way go out as one.
type acks struct {
	mu     sync.Mutex
	window int
	first  uint64 // seq of open[0]
	open   []bool // done or not, from first on
	ready  chan struct{}
	acked  uint64 // highest seq that may be acked
}

func newAcks(window int) *acks {
	return &acks{window: max(window, 1), ready: make(chan struct{}, 1)}
}

// add takes the next event's seq, which has to follow on the one before and to be within the window.
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

// done marks seq and moves the ack as far as it goes.
func (a *acks) done(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[seq-a.first] = true
	n := 0
	for n < len(a.open) && a.open[n] {
		n++
	}
	if n == 0 {
		return
	}
	a.open = append(a.open[:0], a.open[n:]...)
	a.first += uint64(n)
	a.acked = a.first - 1
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

// send writes acks until ctx ends.
func (a *acks) send(ctx context.Context, stream eventStream, fail context.CancelCauseFunc) {
	for {
		select {
		case <-a.ready:
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		ack := &channelv1.Ack{Seq: a.acked}
		a.mu.Unlock()
		if err := stream.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Ack{Ack: ack}}); err != nil {
			return // Recv tells why
		}
	}
}
