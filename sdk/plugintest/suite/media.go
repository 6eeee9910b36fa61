package suite

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// mediaChecks are about attachments.
func mediaChecks() []Check {
	return []Check{
		{Name: "fetch", Run: fetch, Next: "answer Fetch with one head, then chunks of at most 256 KiB"},
		{Name: "fetch-unknown", Run: fetchUnknown, Next: "answer an unknown handle with a status, NOT_FOUND if possible"},
		{Name: "upload", Run: upload, Next: "take one head, then chunks of at most 256 KiB, and answer with a handle"},
	}
}

// mediaSize needs three chunks.
const mediaSize = 2*handshake.MaxChunk + 1000

func fetch(t *T) {
	p := t.able("fetch", (*channelv1.Capabilities).GetFetch)
	if t.stage == nil {
		t.Skip("there is no fake platform in %s to post an attachment", t.plugin.Source)
	}
	st := p.receive(4)
	t.posted++
	t.must(t.stage.platform.Post(fake.Post{ID: fmt.Sprint("conform-", t.posted), Text: "conform media", Media: mediaSize}))
	e, err := st.Next(t.ctx, t.config.Patience)
	if err != nil {
		t.missing(err)
	}
	if len(e.GetAttachments()) == 0 {
		t.Skip("the fake platform posts no attachments")
	}
	body, err := wire.Fetch(t.ctx, p.channel, e.GetAttachments()[0].GetHandle())
	if err != nil {
		t.Fail("fetch: %w", err)
	}
	if len(body) == 0 {
		t.Fail("fetch: no bytes came")
	}
}

func fetchUnknown(t *T) {
	p := t.able("fetch", (*channelv1.Capabilities).GetFetch)
	ctx, cancel := t.soon()
	defer cancel()
	_, err := wire.Fetch(ctx, p.channel, "../../etc/passwd")
	if c := status.Code(err); c == codes.OK || c == codes.DeadlineExceeded || c == codes.Unimplemented {
		t.Fail("fetch of an unknown handle answers %s", describe(err))
	}
	p.alive()
}

func upload(t *T) {
	c := t.able("upload", (*channelv1.Capabilities).GetUpload).talk()
	body := []byte(strings.Repeat("conform ", mediaSize/8))
	handle, err := wire.Upload(t.ctx, c.channel, &channelv1.MediaHead{MediaType: "text/plain", Name: "conform.txt"}, body)
	if err != nil {
		t.Fail("upload: %w", err)
	}
	if handle == "" {
		t.Fail("upload: the answer has no handle")
	}
	r := c.message("conform with a file")
	r.Attachments = []*channelv1.Attachment{{Handle: handle, Name: "conform.txt", MediaType: "text/plain", Size: uint64(len(body))}}
	sent, err := c.channel.Send(t.ctx, r)
	if err != nil {
		t.Fail("send what was uploaded: %w", err)
	}
	if sent.GetOutcome() != channelv1.Outcome_OUTCOME_SENT {
		t.Fail("send what was uploaded: the outcome is %v (%s)", sent.GetOutcome(), sent.GetDetail())
	}
}
