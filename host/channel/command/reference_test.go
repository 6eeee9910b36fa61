package command

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestReference keeps docs/reference/chat-commands.md like /help.
func TestReference(t *testing.T) {
	_, list, ok := strings.Cut(help, "\n\n")
	if !ok {
		t.Fatal("/help has no list")
	}
	need.Golden(t, "../../../docs/reference/chat-commands.md", "# Chat commands\n\n"+
		"People write these in any chat with Flynn, on the web page and in the terminal. A command that names a role is for that role; see\n"+
		"`[access]` in [flynn.toml](configuration.md). `/help` shows this list.\n\n"+list+"\n")
}
