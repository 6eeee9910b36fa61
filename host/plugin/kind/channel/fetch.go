package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// Media is the bytes of an attachment as they come from the plugin. Name and Type are the sender's claims.
type Media struct {
	Name string
	Type string
	Size int64 // bytes; 0 when unknown
	// Body fails if there are more bytes than allowed or fewer than announced, or if the digest does not match. Close ends the transfer.
	Body io.ReadCloser
}

// Fetch opens an attachment of at most limit bytes. ctx covers the whole transfer.
func (c *Client) Fetch(ctx context.Context, handle string, limit int64) (Media, error) {
	ctx, cancel := context.WithCancel(ctx)
	m, err := c.fetch(ctx, cancel, handle, limit)
	if err != nil {
		cancel()
		return Media{}, fmt.Errorf("fetch an attachment from %s: %w", c.Instance, err)
	}
	return m, nil
}

func (c *Client) fetch(ctx context.Context, cancel context.CancelFunc, handle string, limit int64) (Media, error) {
	stream, err := c.rpc.Fetch(ctx, &channelv1.FetchRequest{Handle: handle})
	if err != nil {
		return Media{}, err
	}
	first, err := stream.Recv()
	if err != nil {
		return Media{}, err
	}
	head := first.GetHead()
	if head == nil {
		return Media{}, errors.New("the plugin broke the protocol: no head before the bytes")
	}
	if head.GetSize() > uint64(limit) {
		return Media{}, fmt.Errorf("it has %d bytes, at most %d", head.GetSize(), limit)
	}
	name, mediaType := kind.Text(head.GetName(), kind.MaxName), kind.Text(head.GetMediaType(), kind.MaxName)
	return Media{Name: name, Type: mediaType, Size: int64(head.GetSize()), Body: &mediaBody{
		stream: stream, cancel: cancel, left: limit, head: head, digest: sha256.New(),
	}}, nil
}

// mediaBody reads the chunks and checks them against the head.
type mediaBody struct {
	stream grpc.ServerStreamingClient[channelv1.FetchResponse]
	cancel context.CancelFunc
	head   *channelv1.MediaHead
	digest hash.Hash
	read   int64
	left   int64 // of the limit
	rest   []byte
}

func (b *mediaBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		frame, err := b.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, b.complete()
		}
		if err != nil {
			return 0, err
		}
		if err := b.take(frame.GetChunk()); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *mediaBody) take(chunk []byte) error {
	b.read += int64(len(chunk))
	b.left -= int64(len(chunk))
	if b.left < 0 {
		return errors.New("fetch an attachment: it has more bytes than allowed")
	}
	b.digest.Write(chunk)
	b.rest = chunk
	return nil
}

// complete is io.EOF if the bytes match the head.
func (b *mediaBody) complete() error {
	if size := b.head.GetSize(); size > 0 && uint64(b.read) != size {
		return fmt.Errorf("fetch an attachment: %d bytes came of %d", b.read, size)
	}
	if want := b.head.GetSha256(); want != "" && hex.EncodeToString(b.digest.Sum(nil)) != want {
		return errors.New("fetch an attachment: the bytes are not those of the digest")
	}
	return io.EOF
}

func (b *mediaBody) Close() error {
	b.cancel()
	return nil
}
