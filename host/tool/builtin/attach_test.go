package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
)

func TestAttach(t *testing.T) {
	b := newBench(t, WebConfig{})
	if err := b.machine.WriteFile(t.Context(), "out/report.txt", []byte("the report"), 0); err != nil {
		t.Fatal(err)
	}
	var kept string
	var refuse error
	registry := tool.NewRegistry()
	err := Register(registry, Config{Keep: func(_ context.Context, _ message.SenderKey, name string, body io.Reader) (message.Attachment, error) {
		text, err := io.ReadAll(body)
		kept = name + ":" + string(text)
		return message.Attachment{Digest: "d1", Name: name, Type: "text/plain", Size: int64(len(text))}, errors.Join(err, refuse)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if b.enforcer, err = tool.NewEnforcer(tool.EnforcerConfig{Registry: registry}); err != nil {
		t.Fatal(err)
	}
	b.offered = tool.NewSet("message.attach")

	r := b.call("message.attach", args{"path": "out/report.txt"})
	b.want(r, false, "report.txt (text/plain, 10 bytes) goes with your answer")
	want := []message.Attachment{{Digest: "d1", Name: "report.txt", Type: "text/plain", Size: 10}}
	if !slices.Equal(r.Attachments, want) || !slices.Equal(r.Labels, []string{"file:out/report.txt"}) || kept != "report.txt:the report" {
		t.Errorf("result %+v, kept %q", r, kept)
	}
	r = b.call("message.attach", args{"path": "out/report.txt", "name": "for you.txt"})
	b.want(r, false, "for you.txt")
	for _, path := range []string{"out/none.txt", "out", "../secret", "/etc/passwd"} {
		if r := b.call("message.attach", args{"path": path}); !r.IsError || len(r.Attachments) > 0 {
			t.Errorf("%s: %+v", path, r)
		}
	}
	refuse = fmt.Errorf("%w: there is no room", ErrNotKept)
	if r = b.call("message.attach", args{"path": "out/report.txt"}); len(r.Attachments) > 0 {
		t.Errorf("what was not kept is attached: %+v", r)
	}
	b.want(r, true, "there is no room")
}
