package channel

import (
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// TestFactsOfAnEvent: what policies decide by comes over as the plugin told it, and within bounds.
func TestFactsOfAnEvent(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*channelv1.Event)
		check  func(Event) bool
	}{
		{"nothing is told", same, func(e Event) bool {
			return !e.Edited && !e.Mentioned && e.Sender.Roles == nil && e.Attachments == nil
		}},
		{"an edit", func(e *channelv1.Event) { e.Kind = channelv1.EventKind_EVENT_KIND_EDIT }, func(e Event) bool { return e.Edited }},
		{"a mention", func(e *channelv1.Event) { e.Mentioned = true }, func(e Event) bool { return e.Mentioned && !e.Addressed }},
		{"addressed is no mention", func(e *channelv1.Event) { e.Addressed = true }, func(e Event) bool { return !e.Mentioned && e.Addressed }},
		{"roles", func(e *channelv1.Event) { e.Sender.Roles = []string{"op", "voice"} }, func(e Event) bool {
			return slices.Equal(e.Sender.Roles, []string{"op", "voice"})
		}},
		{"a flood of roles", func(e *channelv1.Event) {
			e.Sender.Roles = strings.Fields(strings.Repeat("r r\x00 ", 1000) + "a b c d e f g h i j k l m n o p q")
		},
			func(e Event) bool { return len(e.Sender.Roles) == 16 }},
		{"a media type", func(e *channelv1.Event) {
			e.Attachments = []*channelv1.Attachment{{Handle: "h", MediaType: "Image/PNG; x=y"}, {Handle: "h", MediaType: "a\nb"}}
		}, func(e Event) bool { return e.Attachments[0].Type == "image/png" && e.Attachments[1].Type == "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := eventFromWire("x", rawEvent(1, c.change).GetEvent())
			if err != nil || !c.check(e) {
				t.Errorf("event is %+v (%v)", e, err)
			}
		})
	}
}
