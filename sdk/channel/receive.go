package channel

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

type receiveStream = grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]

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
	number, seq := o.backlog.open(open.GetWindow())
	o.server.Log().Debug("stream opened", "stream", open.GetStreamId(), "window", open.GetWindow(), "first", seq)

	var sent atomic.Uint64 // seq after the last one sent
	sent.Store(seq)
	acks := make(chan error, 1)
	go func() { // ends with the stream, at the latest when this method returns
		acks <- o.acks(stream, number, &sent)
		cancel()
	}()
	err = o.events(ctx, stream, number, &sent)
	select {
	case cause := <-acks:
		err = cause
	default:
	}
	return ended(err)
}

// events sends frames as they become available, until the stream ends.
func (o *outbound) events(ctx context.Context, stream receiveStream, number int, sent *atomic.Uint64) error {
	for {
		frame, err := o.backlog.next(ctx, number, sent.Load())
		if err != nil {
			return err
		}
		sent.Add(1) // before sending: the ack may arrive before Send returns
		if err := stream.Send(frame); err != nil {
			return err
		}
	}
}

// acks reads the host's frames until the stream ends. It ignores unknown kinds of frames.
func (o *outbound) acks(stream receiveStream, number int, sent *atomic.Uint64) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		ack := frame.GetAck()
		if ack == nil {
			continue
		}
		if err := o.backlog.ack(number, ack, sent.Load()); err != nil {
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
