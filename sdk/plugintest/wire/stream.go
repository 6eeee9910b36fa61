package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// Stream is one Receive stream. One goroutine uses it, besides Leases.
type Stream struct {
	wire   grpc.BidiStreamingClient[channelv1.ReceiveRequest, channelv1.ReceiveResponse]
	frames chan *channelv1.ReceiveResponse // closed at the end of the stream
	err    error                           // why it ended, once frames is closed
	cancel context.CancelFunc
	reader sync.WaitGroup

	leases  *Leases    // nil for a host that grants none
	sending sync.Mutex // held while a frame is sent
}

// ErrQuiet means that no event arrived in time.
var ErrQuiet = errors.New("nothing came")

// Open begins a stream. The plugin sends again what was not acknowledged on the last one. If the stream cannot begin, it counts as ended.
func Open(ctx context.Context, c channelv1.ChannelClient, window uint32) *Stream {
	return OpenLeased(ctx, c, window, nil)
}

// OpenLeased is Open for a plugin that was configured with a lease.
func OpenLeased(ctx context.Context, c channelv1.ChannelClient, window uint32, leases *Leases) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{frames: make(chan *channelv1.ReceiveResponse), cancel: cancel, leases: leases}
	open := &channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Open{Open: Grease(&channelv1.Open{StreamId: "test", Window: window})}}
	if s.wire, s.err = c.Receive(ctx); s.err == nil {
		s.err = s.wire.Send(open)
	}
	if s.err != nil {
		s.err = fmt.Errorf("open the stream: %w", s.err)
		close(s.frames)
		return s
	}
	s.reader.Go(func() { s.read(ctx) })
	return s
}

func (s *Stream) read(ctx context.Context) {
	defer close(s.frames)
	for {
		frame, err := s.wire.Recv()
		if s.err = err; err != nil {
			return
		}
		if r := frame.GetRenew(); r != nil {
			if s.leases != nil {
				s.leases.asked(r, s.Send)
			}
			continue
		}
		select {
		case s.frames <- frame:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
	}
}

// Finish ends the stream once the plugin has read everything that was sent, or when that takes too long.
func (s *Stream) Finish(within time.Duration) {
	if s.wire != nil && s.wire.CloseSend() == nil {
		s.Ended(within)
	}
	s.Close()
}

// Close ends the stream. The plugin may not have read the last frames.
func (s *Stream) Close() {
	s.cancel()
	s.reader.Wait()
}

// Next waits for an event and validates it like a host: an event of a known kind that is not Flynn's own must have valid identifiers.
func (s *Stream) Next(ctx context.Context, within time.Duration) (*channelv1.Event, error) {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case frame, open := <-s.frames:
			if !open {
				return nil, fmt.Errorf("the stream ended: %w", s.err)
			}
			e := frame.GetEvent()
			if e == nil {
				continue // frames of other kinds belong to future versions
			}
			_, known := channelv1.EventKind_name[int32(e.GetKind())]
			if err := bounds.Event(e); err != nil && known && e.GetKind() != 0 && !e.GetSender().GetIsSelf() {
				return nil, fmt.Errorf("event %d is malformed: %w", e.GetSeq(), err)
			}
			return e, nil
		case <-late.C:
			return nil, ErrQuiet
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Ended waits for the stream to end, dropping frames, and reports whether it did and why.
func (s *Stream) Ended(within time.Duration) (why error, over bool) {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case _, open := <-s.frames:
			if !open {
				return s.err, true
			}
		case <-late.C:
			return nil, false
		}
	}
}

// Send sends an arbitrary frame.
func (s *Stream) Send(frame *channelv1.ReceiveRequest) error {
	if s.wire == nil {
		return s.err // it never began
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.wire.Send(frame)
}

// Ack acknowledges the events up to seq. The host accepts all of them except those in rejected.
func (s *Stream) Ack(seq uint64, rejected ...*channelv1.Rejection) error {
	ack := Grease(&channelv1.Ack{Seq: seq, Rejected: rejected})
	return s.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Ack{Ack: ack}})
}
