// Package bounds defines the valid identifiers of events, and the valid names and schemas of tools. The SDK checks what a plugin delivers
// by it, and the host what arrives, so that a plugin never acknowledges an event to its platform that the host would drop.
package bounds

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// MaxID bounds the bytes of an identifier.
const MaxID = 256

// ID returns why a text cannot be an identifier: it is too long, or could confuse readers of logs or rules. Identifiers are never repaired:
// a repaired one may be somebody else's.
func ID(s string) error {
	switch {
	case len(s) > MaxID:
		return fmt.Errorf("has %d bytes, at most %d", len(s), MaxID)
	case !utf8.ValidString(s):
		return fmt.Errorf("is not valid UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("has unprintable characters")
	}
	return nil
}

// Event returns the error in the identifiers of an event, if any.
func Event(e *channelv1.Event) error {
	for _, id := range []struct {
		name, value string
		required    bool
	}{
		{"event_id", e.GetEventId(), true},
		{"conversation.id", e.GetConversation().GetId(), true},
		{"conversation.parent", e.GetConversation().GetParent(), false},
		{"sender.id", e.GetSender().GetId(), true},
		{"sender.account", e.GetSender().GetAccount(), false},
		{"reply_to", e.GetReplyTo(), false},
		{"target_id", e.GetTargetId(), false},
	} {
		if id.value == "" && id.required {
			return fmt.Errorf("%s is empty", id.name)
		}
		if err := ID(id.value); err != nil {
			return fmt.Errorf("%s %w", id.name, err)
		}
	}
	return nil
}

// Limits of the tools of a provider.
const (
	MaxTools  = 512      // count
	MaxSchema = 64 << 10 // bytes
)

var validTool = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`) })

// Tool returns the error in the name or the schemas of a tool, if any. The schema of its output may be empty.
func Tool(name string, input, output []byte) error {
	switch {
	case !validTool().MatchString(name):
		return fmt.Errorf("%.80q is not a tool's name", name)
	case !isSchema(input):
		return fmt.Errorf("the input schema of tool %s is not a JSON object of at most %d bytes", name, MaxSchema)
	case len(output) > 0 && !isSchema(output):
		return fmt.Errorf("the output schema of tool %s is not a JSON object of at most %d bytes", name, MaxSchema)
	}
	return nil
}

// isSchema reports whether text is a JSON object within bounds.
func isSchema(text []byte) bool {
	var object map[string]json.RawMessage
	return len(text) <= MaxSchema && json.Unmarshal(text, &object) == nil && object != nil
}
