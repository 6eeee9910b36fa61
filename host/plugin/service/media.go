package service

import (
	"errors"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// PutMedia implements hostv1.HostServer.
func (s *Server) PutMedia(stream grpc.ClientStreamingServer[hostv1.PutMediaRequest, hostv1.PutMediaResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	head := first.GetHead()
	if head == nil {
		return status.Error(codes.InvalidArgument, "the first frame has to be the head")
	}
	body := &putBody{stream: stream, guest: guestOf(ctx)}
	info, err := s.config.Media.Put(ctx, media.Head{
		Size: int64(min(head.GetSize(), math.MaxInt64)), Type: head.GetMediaType(), Name: head.GetName(),
		Owner: message.SenderKey(body.guest.instance),
	}, body)
	switch {
	case err == nil:
		return stream.SendAndClose(&hostv1.PutMediaResponse{Sha256: info.Digest})
	case body.failed != nil:
		return body.failed
	case errors.Is(err, media.ErrTooLarge):
		return status.Error(codes.ResourceExhausted, media.ErrTooLarge.Error()) // trying again cannot help
	case errors.Is(err, media.ErrShare):
		return tooMuch(media.ErrShare.Error(), time.Minute)
	case errors.Is(err, media.ErrFull):
		return tooMuch(media.ErrFull.Error(), time.Minute)
	case errors.Is(err, media.ErrSize):
		return status.Error(codes.InvalidArgument, media.ErrSize.Error())
	}
	return s.trouble(ctx, "put media", err)
}

// putBody reads the chunks of a PutMedia call.
type putBody struct {
	stream grpc.ClientStreamingServer[hostv1.PutMediaRequest, hostv1.PutMediaResponse]
	guest  *guest
	rest   []byte
	failed error // error for the plugin
}

// Read implements io.Reader.
func (b *putBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if err := b.next(); err != nil {
			if !errors.Is(err, io.EOF) {
				b.failed = err
			}
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// next reads one frame. Unknown frames of a later protocol are ignored.
func (b *putBody) next() error {
	frame, err := b.stream.Recv()
	if err != nil {
		return err
	}
	switch {
	case frame.GetHead() != nil:
		return status.Error(codes.InvalidArgument, "only the first frame may be the head")
	case len(frame.GetChunk()) > handshake.MaxChunk:
		return status.Errorf(codes.InvalidArgument, "a chunk has at most %d bytes", handshake.MaxChunk)
	}
	b.rest = frame.GetChunk()
	return spend(b.guest.media, len(b.rest), "the instance puts too much media")
}

// GetMedia implements hostv1.HostServer.
func (s *Server) GetMedia(r *hostv1.GetMediaRequest, stream grpc.ServerStreamingServer[hostv1.GetMediaResponse]) error {
	ctx := stream.Context()
	body, info, err := s.config.Media.Open(ctx, r.GetSha256())
	if errors.Is(err, media.ErrNotFound) {
		return status.Error(codes.NotFound, media.ErrNotFound.Error())
	}
	if err != nil {
		return s.trouble(ctx, "open media", err)
	}
	defer body.Close()
	head := &hostv1.MediaHead{Size: uint64(info.Size), MediaType: info.Type(), Name: info.Name}
	if err := stream.Send(&hostv1.GetMediaResponse{Frame: &hostv1.GetMediaResponse_Head{Head: head}}); err != nil {
		return err
	}
	for {
		chunk := make([]byte, handshake.MaxChunk) // a new one each time: gRPC may keep it
		n, end := io.ReadFull(body, chunk)
		if n > 0 {
			if err := stream.Send(&hostv1.GetMediaResponse{Frame: &hostv1.GetMediaResponse_Chunk{Chunk: chunk[:n]}}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(end, io.EOF) || errors.Is(end, io.ErrUnexpectedEOF):
			return nil
		case errors.Is(end, media.ErrCorrupt):
			return status.Error(codes.DataLoss, media.ErrCorrupt.Error())
		case end != nil:
			return s.trouble(ctx, "read media", end)
		}
	}
}
