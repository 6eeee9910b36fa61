package hostapi

import (
	"context"
	"errors"
	"io"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// Media is content in the host's media store.
type Media struct {
	Name string
	Type string // media type
	Size int64  // bytes
	Body io.Reader
}

const maxChunk = 256 << 10 // bytes

// PutMedia stores m.Size bytes of m.Body and returns their SHA-256 in lower-case hex. It requires the permission "media".
func (h *Host) PutMedia(ctx context.Context, m Media) (sha256 string, err error) {
	c, err := h.service()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.PutMedia(ctx)
	if err != nil {
		return "", failed("put media", err)
	}
	head := &hostv1.MediaHead{Size: uint64(max(m.Size, 0)), MediaType: m.Type, Name: m.Name}
	err = stream.Send(&hostv1.PutMediaRequest{Frame: &hostv1.PutMediaRequest_Head{Head: head}})
	for buffer := make([]byte, maxChunk); err == nil; {
		n, end := io.ReadFull(m.Body, buffer)
		if n > 0 {
			err = stream.Send(&hostv1.PutMediaRequest{Frame: &hostv1.PutMediaRequest_Chunk{Chunk: buffer[:n]}})
		}
		if errors.Is(end, io.EOF) || errors.Is(end, io.ErrUnexpectedEOF) {
			break
		}
		if end != nil {
			return "", failed("put media", end)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // the end of the stream: CloseAndRecv has the reason
		return "", failed("put media", err)
	}
	out, err := stream.CloseAndRecv()
	if err != nil {
		return "", failed("put media", err)
	}
	return out.GetSha256(), nil
}

// OpenMedia reads media by its digest. Its Body ends with ctx, and must be read to its end or to an error. It requires the permission
// "media".
func (h *Host) OpenMedia(ctx context.Context, sha256 string) (Media, error) {
	c, err := h.service()
	if err != nil {
		return Media{}, err
	}
	stream, err := c.GetMedia(ctx, &hostv1.GetMediaRequest{Sha256: sha256})
	if err != nil {
		return Media{}, failed("open media", err)
	}
	first, err := stream.Recv()
	if err != nil {
		return Media{}, failed("open media", err)
	}
	head := first.GetHead()
	return Media{
		Name: head.GetName(), Type: head.GetMediaType(), Size: int64(head.GetSize()),
		Body: &body{next: func() ([]byte, error) {
			frame, err := stream.Recv()
			return frame.GetChunk(), err
		}},
	}, nil
}

// body reads chunks as one stream.
type body struct {
	next func() ([]byte, error)
	rest []byte
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		var err error
		if b.rest, err = b.next(); err != nil {
			return 0, err // io.EOF at the end
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
