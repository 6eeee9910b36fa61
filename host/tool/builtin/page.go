package builtin

import (
	"fmt"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/tool"
)

// pageSize is how much text a tool with an offset returns at a time. It stays below what the
// runner lets through, so that a page is never cut in its middle.
const pageSize = tool.MaxText - 8<<10

// page returns the text from offset on, at most pageSize bytes and whole runes, with a note where to go on.
func page(text string, offset int) string {
	if offset >= len(text) && offset > 0 {
		return fmt.Sprintf("[the text ends at offset %d]", len(text))
	}
	for offset > 0 && !utf8.RuneStart(text[offset]) {
		offset--
	}
	end := offset + pageSize
	if end >= len(text) {
		return text[offset:]
	}
	for end > offset && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s\n[%d of %d bytes; go on with offset %d]", text[offset:end], end-offset, len(text), end)
}
