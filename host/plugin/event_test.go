package plugin

import (
	"fmt"

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
