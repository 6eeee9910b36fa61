package tool

import (
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/sdk/cut"
)

// MaxText bounds the text of a result for the model, in bytes.
const MaxText = 64 << 10

// boundText makes text valid UTF-8 and at most max bytes long. It keeps the head and the tail, since a
// command's first lines say what it did and its last lines why it failed; rest tells how to read the omitted part.
func boundText(s string, max int, rest string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= max {
		return s
	}
	const room = 256 // for the marker
	keep := max - room - len(rest)
	if keep < 0 {
		return cut.Head(s, max)
	}
	head := cut.Head(s, keep*3/4)
	tail := cut.Tail(s, keep/4)
	left := len(s) - len(head) - len(tail)
	return fmt.Sprintf("%s\n\n[... %d bytes left out. %s ...]\n\n%s", head, left, rest, tail)
}
