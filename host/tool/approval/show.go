package approval

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/cut"
)

const (
	// maxShown bounds the call that a chat can show, in bytes. A longer one cannot be approved there.
	maxShown = 3000
	// maxBrief bounds the call in the notice of a request; about one line of IRC.
	maxBrief = 300
)

// Showable reports whether a chat can show a request whole; otherwise it cannot be approved there.
func Showable(a consent.Approval) bool { return len(Call(a.Args)) <= maxShown }

// Brief reports whether the notice of a request shows the call whole.
func Brief(a consent.Approval) bool { return len(brief(a.Args)) <= maxBrief }

// Call formats a call for people: the command line as one would type it, then the other arguments by their names. It escapes only
// characters that do not print or that change how others are shown.
func Call(args json.RawMessage) string {
	command, others := read(args)
	return strings.Join(append(command, others...), "\n")
}

// brief formats a call in one line, with a sign for each end of a line.
func brief(args json.RawMessage) string {
	command, others := read(args)
	text := strings.ReplaceAll(strings.Join(command, "\n"), "\n", " "+lineEnd+" ")
	if len(others) > 0 {
		if text != "" {
			text += "  # with "
		}
		text += strings.ReplaceAll(strings.Join(others, ", "), "\n", " "+lineEnd+" ")
	}
	return text
}

// lineEnd replaces the end of a line in a notice. visible escapes it if the call contains it.
const lineEnd = "⏎"

// read takes a call apart: the command, if it has one, and the other arguments as "name: value".
func read(args json.RawMessage) (command, others []string) {
	_, named, err := jsonform.Canonical(args)
	if err != nil {
		return nil, []string{visible(string(args))}
	}
	for _, name := range []string{"command", "script", "code"} {
		if text, ok := named[name].(string); ok && command == nil {
			command = []string{visible(text)}
			delete(named, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		others = append(others, visible(name)+": "+visible(value(named[name])))
	}
	return command, others
}

// value formats an argument for people: a text as it is, all else as JSON.
func value(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	data, _ := jsonform.Marshal(v) // it came from JSON
	return string(data)
}

// Text is the notice of a request in a chat: Markdown of at most five lines, with the call first. The text of a model or a
// stranger can neither break out of its markup nor hide in it. Details has the rest.
func Text(a consent.Approval, o Offer, now time.Time) string {
	lines := []string{
		"**Approve?** " + code(shortened(brief(a.Args), maxBrief)),
		fmt.Sprintf("%s %s, agent %s, asked by %s", code(a.Tool), place(a.Where), plain(a.Agent), plain(string(a.Requester))),
	}
	if o.NotHeld != "" {
		lines = append(lines, "Limits "+plain(o.NotHeld))
	}
	if len(o.Unshown) > 0 {
		lines = append(lines, "Not shown, but followed: "+plain(shortened(strings.Join(o.Unshown, "; "), maxBrief)))
	}
	minutes := max(1, int(a.Expires.Sub(now).Round(time.Minute).Minutes()))
	switch {
	case Brief(a):
		lines = append(lines, fmt.Sprintf("%s, within %d minutes. Why, and what each covers: `/show %s`", answers(a, o), minutes, a.ID))
	case Showable(a):
		lines = append(lines, fmt.Sprintf("**%s are not shown**: `/show %s` shows all, then approve it; or `/deny %s`. %d minutes", more(a), a.ID, a.ID, minutes))
	default:
		lines = append(lines, fmt.Sprintf("**%s are not shown**: see the web page or `flynn approvals show %s`; or `/deny %s`. %d minutes", more(a), a.ID, a.ID, minutes))
	}
	return strings.Join(lines, "\n")
}

// answers are the commands by which an owner answers.
func answers(a consent.Approval, o Offer) string {
	list := []string{"`/approve " + a.ID + "`"}
	if o.Session {
		text := "`/approve " + a.ID + " session`"
		if o.SessionShell != "" {
			text += " (as good as a shell)"
		}
		list = append(list, text)
	}
	if o.Standing {
		list = append(list, "`/approve "+a.ID+" always`")
	}
	return strings.Join(append(list, "`/deny "+a.ID+"`"), ", ")
}

// more says how much of a call a notice omits.
func more(a consent.Approval) string {
	text := brief(a.Args)
	shown := shortened(text, maxBrief)
	if lines := strings.Count(text, lineEnd) - strings.Count(shown, lineEnd); lines > 0 {
		return fmt.Sprintf("%d more lines (%d bytes in all)", lines, len(Call(a.Args)))
	}
	return fmt.Sprintf("%d more bytes", len(text)-maxBrief)
}

// shortened cuts a text to that many bytes and marks the cut.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return cut.Head(text, most) + " ..."
}

// Details describes a Showable request in full, in Markdown.
func Details(a consent.Approval, o Offer, now time.Time) string {
	var b strings.Builder
	text := Call(a.Args)
	fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
	fmt.Fprintf(&b, "%s\n%s\n%s\n\n%s %s", fence, text, fence, code(a.Tool), place(a.Where))
	if a.Dir != "" {
		fmt.Fprintf(&b, ", in %s", code(visible(a.Dir)))
	}
	fmt.Fprintf(&b, ", agent %s, asked by %s.\n", plain(a.Agent), plain(string(a.Requester)))
	if len(o.Unshown) > 0 {
		fmt.Fprintf(&b, "\n- not shown, but followed: %s", plain(strings.Join(o.Unshown, "; ")))
	}
	if o.NotHeld != "" {
		fmt.Fprintf(&b, "\n- limits %s", plain(o.NotHeld))
	}
	for _, r := range a.Reasons {
		fmt.Fprintf(&b, "\n- %s", plain(r))
	}
	fmt.Fprintf(&b, "\n\nAn owner answers within %d minutes:\n\n- `/approve %s`: this call alone\n", max(1, int(a.Expires.Sub(now).Round(time.Minute).Minutes())), a.ID)
	if o.Session {
		fmt.Fprintf(&b, "- `/approve %s session`: from now on %s\n", a.ID, plain(o.SessionCovers))
	}
	if o.SessionShell != "" {
		fmt.Fprintf(&b, "  - That is as good as a shell %s: %s\n", place(a.Where), plain(o.SessionShell))
	}
	if o.Standing {
		fmt.Fprintf(&b, "- `/approve %s always`: from now on %s\n", a.ID, plain(o.StandingCovers))
	}
	fmt.Fprintf(&b, "- `/deny %s`\n", a.ID)
	if o.NotStanding != "" && o.SessionShell == "" && a.Reach == ReachShell {
		fmt.Fprintf(&b, "\nIt cannot be allowed for good: %s.\n", plain(o.NotStanding))
	}
	return b.String()
}

// place says where a call runs.
func place(where string) string {
	switch where {
	case "", onHost:
		return "on the host"
	case "sandbox":
		return "in the sandbox"
	}
	return "in " + plain(where)
}

// Outcome describes the state of a request in Markdown.
func Outcome(a consent.Approval) string {
	switch {
	case a.State == consent.ApprovalDenied:
		return "**Denied** by " + plain(a.Decider) + "."
	case a.State == consent.ApprovalExpired:
		return "**Expired**: nobody answered in time."
	case a.State == consent.ApprovalWithdrawn:
		return "**Withdrawn**: the call ended before it could run."
	case a.Scope == consent.GrantSession:
		return "**Approved for the session** by " + plain(a.Decider) + "."
	case a.Scope == consent.GrantStanding:
		return "**Approved for good** by " + plain(a.Decider) + "; `flynn approvals grants` shows until when."
	}
	return "**Approved** by " + plain(a.Decider) + ", this once."
}

// Covers describes in one line what a grant covers.
func Covers(g consent.Grant) string {
	what := "exactly " + brief(g.Args)
	if g.Pattern != "" {
		what = fmt.Sprintf("commands that fit %q, otherwise as in %s", visible(g.Pattern), brief(g.Args))
	}
	if len(g.Programs) > 0 {
		what += " (" + visible(strings.Join(g.Programs, ", ")) + ")"
	}
	if g.Scope == consent.GrantSession {
		what += ", in the session " + visible(string(g.Session))
	}
	if g.Dir != "" {
		what += ", in " + visible(g.Dir)
	}
	return fmt.Sprintf("%s by agent %s when %s asks: %s, where: %s, with these policies, until %s",
		g.Tool, visible(g.Agent), visible(string(g.Requester)), what, visible(g.Where), day(g.Expires))
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// visible escapes characters that do not print, or that change how others are shown, as ⟨U+202E⟩. The ends of lines stay. The signs of
// this notation and lineEnd are escaped as well, so that different texts look different.
func visible(s string) string {
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		if c == '\n' || unicode.IsPrint(c) && !strings.ContainsRune(lineEnd+"⟨", c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "⟨U+%04X⟩", c)
		}
	}
	return b.String()
}

// plain escapes the markup in a foreign text.
func plain(s string) string {
	s = strings.ReplaceAll(visible(s), "\n", " "+lineEnd+" ")
	return strings.NewReplacer("`", "'", "*", "\\*", "_", "\\_", "[", "\\[", "<", "\\<").Replace(s)
}

// code formats a text of one line as code in Markdown, also if it has backticks.
func code(s string) string {
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if s == "" || strings.Trim(s, " ") == "" || strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || s[0] == ' ' && s[len(s)-1] == ' ' {
		s = " " + s + " "
	}
	return fence + s + fence
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
