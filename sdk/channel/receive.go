package channel

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

type receiveStream = grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]

// receiving is one stream to the host. Events and Renews are sent by two goroutines.
type receiving struct {
	receiveStream
	number  int
	sent    atomic.Uint64 // seq after the last one sent
	sending sync.Mutex
}

func (r *receiving) send(frame *channelv1.ReceiveResponse) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.Send(frame)
}

// Receive streams events to the host, beginning with those that were not acked on an earlier stream.
func (o *outbound) Receive(stream receiveStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return status.Error(codes.InvalidArgument, "the first frame must be open")
	}
	ctx, cancel := o.server.Until(stream.Context())
	defer cancel()
	r := &receiving{receiveStream: stream}
	number, seq := o.backlog.open(open.GetWindow())
	r.number = number
	r.sent.Store(seq)
	o.server.Log().Debug("stream opened", "stream", open.GetStreamId(), "window", open.GetWindow(), "first", seq)

	read := make(chan error, 1)
	go func() { // ends with the stream, at the latest when this method returns
		read <- o.read(r)
		cancel()
	}()
	if o.lease.granted() {
		go o.lease.renew(ctx, r.send) // ends with the stream
	}
	err = o.events(ctx, r)
	select {
	case cause := <-read:
		err = cause
	default:
	}
	return ended(err)
}

// events sends frames as they become available, until the stream ends.
func (o *outbound) events(ctx context.Context, r *receiving) error {
	for {
		frame, err := o.backlog.next(ctx, r.number, r.sent.Load())
		if err != nil {
			return err
		}
		r.sent.Add(1) // before sending: the ack may arrive before send returns
		if err := r.send(frame); err != nil {
			return err
		}
	}
}

// read reads the host's frames until the stream ends. It ignores unknown kinds of frames.
func (o *outbound) read(r *receiving) error {
	for {
		frame, err := r.Recv()
		if err != nil {
			return err
		}
		if ack := frame.GetAck(); ack != nil {
			err = o.backlog.ack(r.number, ack, r.sent.Load())
		} else if answer := frame.GetLease(); answer != nil {
			err = o.lease.take(answer)
		}
		if err != nil {
			return err
		}
	}
}

// ended converts the end of a stream to a status.
func ended(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, context.Canceled), errors.Is(err, ErrEnding):
		return nil
	case errors.Is(err, errReplaced):
		return status.Error(codes.Aborted, err.Error())
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.InvalidArgument, err.Error())
}
