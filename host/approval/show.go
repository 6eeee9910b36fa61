package approval

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/store"
)

// maxShown bounds the arguments that are shown in a chat, in bytes. A call that cannot be shown whole cannot be approved there.
const maxShown = 3000

// Showable tells whether a chat can show a request whole. Nobody is asked to agree to what he cannot see.
func Showable(a store.Approval) bool { return len(visible(string(a.Args))) <= maxShown }

// Text is a request as a chat shows it: Markdown, with the whole call. What a model or a stranger wrote can neither leave its
// frame nor hide in it: characters that do not print are escaped.
func Text(a store.Approval, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**Approval needed** (request %s)\n\nAgent %s wants to call `%s`, asked by %s, where: %s", a.ID, plain(a.Agent), a.Tool, plain(a.Requester), plain(a.Where))
	if a.Dir != "" {
		fmt.Fprintf(&b, ", in %s", plain(a.Dir))
	}
	b.WriteString(".\n")
	if Showable(a) {
		fence := strings.Repeat("`", max(3, longestRun(string(a.Args), '`')+1))
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n", fence, visible(string(a.Args)), fence)
	} else {
		fmt.Fprintf(&b, "\nThe call has %d bytes, too many to be shown here. Decide on the web page or with `flynn chat`.\n", len(a.Args))
	}
	for _, r := range a.Reasons {
		fmt.Fprintf(&b, "\n- %s", plain(r))
	}
	if len(a.Reasons) > 0 {
		b.WriteString("\n")
	}
	left := a.Expires.Sub(now).Round(time.Minute)
	if Showable(a) {
		fmt.Fprintf(&b, "\nAn owner answers `/approve %s` or `/deny %s` within %d minutes.", a.ID, a.ID, max(1, int(left.Minutes())))
	}
	return b.String()
}

// visible writes characters that do not print, or that change how others are shown, as escapes.
func visible(s string) string {
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\u%04x", c)
		}
	}
	return b.String()
}

// plain is a word of somebody else inside a line of ours: without markup.
func plain(s string) string {
	return strings.NewReplacer("`", "'", "*", "\\*", "_", "\\_", "[", "\\[", "<", "\\<").Replace(visible(s))
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
