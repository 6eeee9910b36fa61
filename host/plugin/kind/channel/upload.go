package channel

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// Upload uploads a file before a send and returns its handle for Reply.Attachments. ctx covers the whole transfer. The error wraps
// message.ErrNotTaken if the plugin will never accept the file.
func (c *Client) Upload(ctx context.Context, a message.Attachment, body io.Reader) (handle string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.Gone, cancel)()
	if handle, err = c.upload(ctx, a, body); neverWorks(err) {
		err = fmt.Errorf("%w: %w", message.ErrNotTaken, err)
	}
	if err != nil {
		return "", fmt.Errorf("upload to %s: %w", c.Instance, err)
	}
	return handle, nil
}

func (c *Client) upload(ctx context.Context, a message.Attachment, body io.Reader) (string, error) {
	stream, err := c.rpc.Upload(ctx)
	if err != nil {
		return "", err
	}
	head := &channelv1.MediaHead{Size: uint64(max(a.Size, 0)), Sha256: a.Digest, MediaType: a.Type, Name: valid(a.Name)}
	err = stream.Send(&channelv1.UploadRequest{Frame: &channelv1.UploadRequest_Head{Head: head}})
	buf := make([]byte, handshake.MaxChunk)
	for err == nil {
		n, readErr := io.ReadFull(body, buf)
		if n > 0 {
			err = stream.Send(&channelv1.UploadRequest{Frame: &channelv1.UploadRequest_Chunk{Chunk: buf[:n]}})
		}
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			break
		}
		if readErr != nil {
			return "", readErr
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the plugin has answered, and CloseAndRecv says what
		return "", err
	}
	out, err := stream.CloseAndRecv()
	if err != nil {
		return "", err
	}
	if h := out.GetHandle(); h == "" || len(h) > maxHandle {
		return "", errors.New("the plugin broke the protocol: invalid handle")
	}
	return out.GetHandle(), nil
}
