package builtin

import (
	"fmt"

	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/sdk/cut"
)

// pageSize is how much text a tool with an offset returns at a time. It is below the runner's
// bound, so that a page is never cut in its middle.
const pageSize = tool.MaxText - 8<<10

// page returns the text from offset on, at most pageSize bytes and whole runes, with a note where the next page begins.
func page(s string, offset int) string {
	if offset >= len(s) && offset > 0 {
		return fmt.Sprintf("[the text ends at offset %d]", len(s))
	}
	offset = len(cut.Head(s, offset))
	shown := cut.Head(s[offset:], pageSize)
	end := offset + len(shown)
	if end == len(s) {
		return shown
	}
	return fmt.Sprintf("%s\n[%d of %d bytes; go on with offset %d]", shown, len(shown), len(s), end)
}
