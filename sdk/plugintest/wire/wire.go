// Package wire is the host's side of the plugin contract, for tests: event streams, media and tool calls, checked strictly.
//
// Open begins a Receive stream, Fetch and Upload transfer media, Call runs a tool. Violations that a real host would ignore are errors
// here: a second head, a chunk that is too large, a frame after the result. Packages plugintest and suite use it. It starts no plugin and
// knows no settings.
package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// Grease adds a field to a message that no receiver can know. A plugin has to ignore it, and stays able to only if tests send it all the
// time.
func Grease[M proto.Message](m M) M {
	raw := protowire.AppendTag(m.ProtoReflect().GetUnknown(), 7777, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, "from a later version"))
	return m
}

// Fetch reads an attachment to its end.
func Fetch(ctx context.Context, c channelv1.ChannelClient, handle string) ([]byte, error) {
	st, err := c.Fetch(ctx, Grease(&channelv1.FetchRequest{Handle: handle}))
	if err != nil {
		return nil, err
	}
	first, err := st.Recv()
	if err != nil {
		return nil, err
	}
	head := first.GetHead()
	if head == nil {
		return nil, errors.New("the first frame is not the head")
	}
	var body []byte
	for {
		frame, err := st.Recv()
		switch n := len(frame.GetChunk()); {
		case errors.Is(err, io.EOF):
			return body, checkMedia(head, body)
		case err != nil:
			return body, fmt.Errorf("after %d bytes: %w", len(body), err)
		case frame.GetHead() != nil:
			return body, errors.New("there is a second head")
		case n > handshake.MaxChunk:
			return body, fmt.Errorf("a chunk has %d bytes, at most %d", n, handshake.MaxChunk)
		}
		body = append(body, frame.GetChunk()...)
	}
}

// checkMedia compares media with their head, which may omit size and digest.
func checkMedia(head *channelv1.MediaHead, body []byte) error {
	size, sum := uint64(len(body)), sha256.Sum256(body)
	if head.GetSize() != 0 && head.GetSize() != size {
		return fmt.Errorf("the head says %d bytes, but %d arrived", head.GetSize(), size)
	}
	if head.GetSha256() != "" && head.GetSha256() != hex.EncodeToString(sum[:]) {
		return errors.New("the bytes do not match the head's digest")
	}
	return nil
}

// Upload passes media to the plugin and returns their handle. The head needs only a name and a type.
func Upload(ctx context.Context, c channelv1.ChannelClient, head *channelv1.MediaHead, body []byte) (handle string, err error) {
	st, err := c.Upload(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	head.Size, head.Sha256 = uint64(len(body)), hex.EncodeToString(sum[:])
	frames := []*channelv1.UploadRequest{{Frame: &channelv1.UploadRequest_Head{Head: Grease(head)}}, Grease(&channelv1.UploadRequest{})}
	for chunk := range slices.Chunk(body, handshake.MaxChunk) {
		frames = append(frames, &channelv1.UploadRequest{Frame: &channelv1.UploadRequest_Chunk{Chunk: chunk}})
	}
	for _, f := range frames {
		if st.Send(f) != nil {
			break // CloseAndRecv returns the reason
		}
	}
	r, err := st.CloseAndRecv()
	return r.GetHandle(), err
}

// Call runs a tool and returns its result. see, if not nil, is called with the frames before it.
func Call(ctx context.Context, c toolv1.ToolsClient, r *toolv1.CallRequest, see func(*toolv1.CallResponse)) (*toolv1.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := c.Call(ctx, Grease(r))
	if err != nil {
		return nil, err
	}
	var result *toolv1.Result
	for {
		frame, err := st.Recv()
		switch {
		case errors.Is(err, io.EOF) && result == nil:
			return nil, errors.New("the call ended without a result")
		case errors.Is(err, io.EOF):
			return result, nil
		case err != nil && result != nil:
			return nil, fmt.Errorf("error after the result: %w", err)
		case err != nil:
			return nil, err
		case result != nil:
			return nil, errors.New("another frame after the result")
		}
		if result = frame.GetResult(); result == nil && see != nil {
			see(frame)
		}
		if len(result.GetStructuredJson()) > 0 && !json.Valid(result.GetStructuredJson()) {
			return nil, errors.New("the structured result is not JSON")
		}
	}
}
