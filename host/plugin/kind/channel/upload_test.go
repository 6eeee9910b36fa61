package channel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// depot takes uploads and sends, and keeps what came.
type depot struct {
	channelv1.UnimplementedChannelServer
	head   *channelv1.MediaHead
	got    bytes.Buffer
	chunks int
	after  int // bytes after which it refuses; 0: never
	handle string
	send   *channelv1.SendRequest
	err    error
}

func (d *depot) Upload(stream grpc.ClientStreamingServer[channelv1.UploadRequest, channelv1.UploadResponse]) error {
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&channelv1.UploadResponse{Handle: d.handle})
		}
		if err != nil {
			return err
		}
		if frame.GetHead() != nil {
			d.head = frame.GetHead()
			continue
		}
		d.chunks++
		d.got.Write(frame.GetChunk())
		if len(frame.GetChunk()) > handshake.MaxChunk {
			return errors.New("the chunk is too large")
		}
		if d.after > 0 && d.got.Len() > d.after {
			return status.Error(codes.InvalidArgument, "no such files here")
		}
	}
}

func (d *depot) Send(_ context.Context, r *channelv1.SendRequest) (*channelv1.SendResponse, error) {
	d.send = r
	return &channelv1.SendResponse{Outcome: channelv1.Outcome_OUTCOME_SENT, MessageIds: []string{"m"}}, nil
}

func (d *depot) Delete(context.Context, *channelv1.DeleteRequest) (*channelv1.DeleteResponse, error) {
	return &channelv1.DeleteResponse{}, d.err
}

func TestUpload(t *testing.T) {
	data := make([]byte, 3*handshake.MaxChunk+5)
	rand.Read(data)
	for _, c := range []struct {
		name   string
		depot  depot
		body   io.Reader
		says   string // in the error
		never  bool
		chunks int
	}{
		{"in chunks", depot{handle: "h1"}, bytes.NewReader(data), "", false, 4},
		{"empty", depot{handle: "h1"}, strings.NewReader(""), "", false, 0},
		{"refused in the middle", depot{handle: "h1", after: handshake.MaxChunk}, bytes.NewReader(data), "no such files here", true, 2},
		{"no handle", depot{}, strings.NewReader("x"), "invalid handle", false, 1},
		{"a handle that is too long", depot{handle: strings.Repeat("h", maxHandle+1)}, strings.NewReader("x"), "invalid handle", false, 1},
		{"a body that breaks", depot{handle: "h1"}, io.MultiReader(strings.NewReader("x"), broken{}), "disk", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			handle, err := connect(t, &c.depot).Upload(t.Context(), message.Attachment{Name: "a.txt", Type: "text/plain", Size: 7, Digest: "d"}, c.body)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, message.ErrNotTaken) != c.never {
					t.Fatalf("got %q, %v", handle, err)
				}
				return
			}
			if err != nil || handle != "h1" || c.depot.chunks != c.chunks {
				t.Fatalf("got %q, %v in %d chunks", handle, err, c.depot.chunks)
			}
			if h := c.depot.head; h.Name != "a.txt" || h.MediaType != "text/plain" || h.Size != 7 || h.Sha256 != "d" {
				t.Errorf("head %v", h)
			}
			if c.chunks > 0 && !bytes.Equal(c.depot.got.Bytes(), data) {
				t.Error("other bytes came")
			}
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func TestDraftsAndFilesAreSent(t *testing.T) {
	d := &depot{}
	c := connect(t, d)
	r := message.Reply{Key: "k", Text: "x", Attachments: []message.Attachment{{Handle: "h", Name: "a", Type: "t/t", Size: 3}, {Name: "without"}}}
	if _, err := c.Send(t.Context(), r); err != nil || d.send.GetDraft() || len(d.send.GetAttachments()) != 1 || d.send.GetAttachments()[0].GetHandle() != "h" {
		t.Errorf("sent %v, %v", d.send, err)
	}
	if _, err := c.SendDraft(t.Context(), r); err != nil || !d.send.GetDraft() {
		t.Errorf("sent %v, %v", d.send, err)
	}
	if err := c.Delete(t.Context(), message.Conversation{ID: "c"}, "m"); err != nil {
		t.Error(err)
	}
	d.err = status.Error(codes.NotFound, "gone")
	if err := c.Delete(t.Context(), message.Conversation{ID: "c"}, "m"); !neverWorks(err) {
		t.Errorf("got %v", err)
	}
	if neverWorks(nil) || neverWorks(errors.New("x")) || neverWorks(status.Error(codes.Unavailable, "x")) {
		t.Error("an error that may pass is taken for one that cannot")
	}
}
