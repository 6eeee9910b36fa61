package channel

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// rawEvent is a frame with a good event, changed in one respect.
func rawEvent(seq uint64, change func(*channelv1.Event)) *channelv1.ReceiveResponse {
	e := &channelv1.Event{
		Seq: seq, EventId: fmt.Sprint("e", seq), Kind: channelv1.EventKind_EVENT_KIND_MESSAGE, Text: "hello",
		Conversation: &channelv1.Conversation{Id: "c"}, Sender: &channelv1.Sender{Id: "u"},
	}
	change(e)
	return &channelv1.ReceiveResponse{Frame: &channelv1.ReceiveResponse_Event{Event: e}}
}

func same(*channelv1.Event) {}

func FuzzEvent(f *testing.F) {
	for _, change := range []func(*channelv1.Event){
		same,
		func(e *channelv1.Event) { e.Text = strings.Repeat("é", 40<<10) },
		func(e *channelv1.Event) { e.Sender.Id = "a\nb" },
		func(e *channelv1.Event) { e.Attachments = []*channelv1.Attachment{{Handle: "h", Size: 1 << 63}} },
	} {
		raw, err := proto.Marshal(rawEvent(1, change).GetEvent())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var wire channelv1.Event
		if proto.Unmarshal(raw, &wire) != nil {
			return
		}
		e, err := eventFromWire("one", &wire)
		if err != nil {
			return
		}
		for _, id := range []string{e.EventID, e.Conversation.ID, e.Sender.ID} {
			if id == "" || bounds.ID(id) != nil {
				t.Errorf("accepted the id %q", id)
			}
		}
		if !utf8.ValidString(e.Text) || len(e.Text) > message.MaxText {
			t.Errorf("accepted a text of %d bytes", len(e.Text))
		}
		if len(e.Sender.Name) > kind.MaxName || len(e.Attachments) > message.MaxAttachments || len(e.Target) > bounds.MaxID || len(e.ReplyTo) > bounds.MaxID {
			t.Errorf("accepted %+v", e)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("cannot be written down: %v", err)
		}
	})
}
