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
func Text(a store.Approval, o Offer, now time.Time) string {
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
	if Showable(a) {
		b.WriteString(answers(a, o, now))
	}
	return b.String()
}

// answers say what an owner can answer, and what each answer covers.
func answers(a store.Approval, o Offer, now time.Time) string {
	var b strings.Builder
	left := a.Expires.Sub(now).Round(time.Minute)
	fmt.Fprintf(&b, "\nAn owner answers within %d minutes:\n\n- `/approve %s`: this call alone\n", max(1, int(left.Minutes())), a.ID)
	if o.Session {
		fmt.Fprintf(&b, "- `/approve %s session`: from now on %s\n", a.ID, plain(o.SessionCovers))
	}
	if o.Standing {
		fmt.Fprintf(&b, "- `/approve %s always`: from now on %s\n", a.ID, plain(o.StandingCovers))
	}
	fmt.Fprintf(&b, "- `/deny %s`\n", a.ID)
	if o.NotStanding != "" && a.Reach == ReachShell {
		fmt.Fprintf(&b, "\nIt cannot be allowed for good: %s.\n", plain(o.NotStanding))
	}
	return b.String()
}

// Outcome says in Markdown what became of a request.
func Outcome(a store.Approval) string {
	switch {
	case a.State == store.ApprovalDenied:
		return "**Denied** by " + plain(a.Decider) + "."
	case a.State == store.ApprovalExpired:
		return "**Expired**: nobody answered in time."
	case a.State == store.ApprovalWithdrawn:
		return "**Withdrawn**: the call ended before it could run."
	case a.Scope == store.GrantSession:
		return "**Approved for the session** by " + plain(a.Decider) + "."
	case a.Scope == store.GrantStanding:
		return "**Approved for good** by " + plain(a.Decider) + "; `flynn approvals grants` shows until when."
	}
	return "**Approved** by " + plain(a.Decider) + ", this once."
}

// Covers is what a grant covers, in one line for people.
func Covers(g store.Grant) string {
	what := "exactly " + visible(string(g.Args))
	if g.Pattern != "" {
		what = fmt.Sprintf("commands that fit %q, otherwise as in %s", visible(g.Pattern), visible(string(g.Args)))
	}
	if len(g.Programs) > 0 {
		what += " (" + visible(strings.Join(g.Programs, ", ")) + ")"
	}
	if g.Scope == store.GrantSession {
		what += ", in the session " + visible(g.Session)
	}
	if g.Dir != "" {
		what += ", in " + visible(g.Dir)
	}
	return fmt.Sprintf("%s by agent %s when %s asks: %s, where: %s, with these policies, until %s",
		g.Tool, visible(g.Agent), visible(g.Requester), what, visible(g.Where), day(g.Expires))
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

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
