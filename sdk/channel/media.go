package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// transferTime bounds a Fetch or an Upload.
const transferTime = 5 * time.Minute

// Fetch streams an attachment's bytes.
func (o *outbound) Fetch(r *channelv1.FetchRequest, stream grpc.ServerStreamingServer[channelv1.FetchResponse]) error {
	p, err := ability[Fetcher](o, "Fetch")
	if err != nil {
		return err
	}
	ctx, cancel, err := o.bounded(stream.Context(), transferTime)
	if err != nil {
		return err
	}
	defer cancel()
	m, err := p.Fetch(ctx, r.GetHandle())
	if err != nil {
		return failed(err)
	}
	defer m.Body.Close()
	head := &channelv1.MediaHead{Size: uint64(max(m.Size, 0)), Sha256: m.SHA256, MediaType: utf8(m.Type), Name: utf8(m.Name)}
	if err := stream.Send(&channelv1.FetchResponse{Frame: &channelv1.FetchResponse_Head{Head: head}}); err != nil {
		return err
	}
	return chunks(m.Body, func(chunk []byte) error {
		return stream.Send(&channelv1.FetchResponse{Frame: &channelv1.FetchResponse_Chunk{Chunk: chunk}})
	})
}

// chunks reads body to its end in pieces of MaxChunk.
func chunks(body io.Reader, send func([]byte) error) error {
	buf := make([]byte, handshake.MaxChunk)
	for {
		n, err := io.ReadFull(body, buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return failed(err)
		}
	}
}

// Upload receives media before a send.
func (o *outbound) Upload(stream grpc.ClientStreamingServer[channelv1.UploadRequest, channelv1.UploadResponse]) error {
	p, err := ability[Uploader](o, "Upload")
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	head := first.GetHead()
	if head == nil {
		return status.Error(codes.InvalidArgument, "the first frame must be the head")
	}
	ctx, cancel, err := o.bounded(stream.Context(), transferTime)
	if err != nil {
		return err
	}
	defer cancel()
	handle, err := p.Upload(ctx, Media{
		Name: head.GetName(), Type: head.GetMediaType(), Size: int64(head.GetSize()), SHA256: head.GetSha256(),
		Body: &uploadBody{stream: stream},
	})
	if err != nil {
		return failed(err)
	}
	return stream.SendAndClose(&channelv1.UploadResponse{Handle: utf8(handle)})
}

// HostMedia is an Uploader that stores files in the host's media store until they are sent. Their handles are digests. It requires the
// permission "media".
type HostMedia struct {
	Host *hostapi.Host
	Most int64 // bytes of one file
}

// Upload implements Uploader.
func (h HostMedia) Upload(ctx context.Context, m Media) (string, error) {
	if m.Size < 0 || m.Size > h.Most {
		return "", status.Errorf(codes.InvalidArgument, "the file has %d bytes, at most %d are taken", m.Size, h.Most)
	}
	return h.Host.PutMedia(ctx, hostapi.Media{Name: m.Name, Type: m.Type, Size: m.Size, Body: Bounded(m.Body, h.Most, nil)})
}

// Bounded returns a body for Media that fails after limit bytes, so that a part is never mistaken for the whole. Close closes body, if it
// can be closed, and calls end, if that is not nil.
func Bounded(body io.Reader, limit int64, end func()) io.ReadCloser {
	return &bounded{body, limit, limit, end}
}

type bounded struct {
	body        io.Reader
	limit, left int64
	end         func()
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the file has more than %d bytes", b.limit)
	}
	return n, err
}

func (b *bounded) Close() error {
	if b.end != nil {
		defer b.end()
	}
	if c, ok := b.body.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// uploadBody reads the chunks of an upload.
type uploadBody struct {
	stream grpc.ClientStreamingServer[channelv1.UploadRequest, channelv1.UploadResponse]
	rest   []byte
}

func (b *uploadBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		frame, err := b.stream.Recv()
		if err != nil {
			return 0, err // io.EOF at the end of the upload
		}
		b.rest = frame.GetChunk()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *uploadBody) Close() error { return nil }
