package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Line is one line of a trace for people.
type Line struct {
	at    time.Time
	At    string `json:"at,omitempty"` // "+1.2s": since the turn began
	Depth int    `json:"depth"`        // the details of a line follow it one deeper
	Text  string `json:"text"`         // without characters that end a line or move a cursor
}

// Text is the trace for people.
func (t Trace) Text() string {
	var out strings.Builder
	title, lines := t.Lines()
	for i, text := range title {
		fmt.Fprintf(&out, "%s%s\n", when(i > 0, "  "), text)
	}
	for _, l := range lines {
		fmt.Fprintf(&out, "%9s  %s%s\n", l.At, strings.Repeat("  ", l.Depth), l.Text)
	}
	return out.String()
}

// Lines returns the trace for people: a title, and one line for each event in their order.
func (t Trace) Lines() (title []string, lines []Line) {
	p := &printer{since: t.Started}
	t.title(p)
	for _, m := range t.Messages {
		p.line(m.At, 0, "message %d from %s: %s", m.Row, m.Sender, words(m.State, quoted(m.Text), m.Note))
	}
	if t.Task != "" {
		p.line(t.Started, 0, "task: %s", quoted(t.Task))
	}
	for _, d := range t.Route {
		p.decision(0, d)
	}
	for i, s := range t.Steps {
		p.step(i+1, s)
	}
	for _, d := range t.Decisions {
		p.within(0, d)
	}
	p.attempts(0, t.Attempts)
	p.approvals(0, t.Approvals)
	p.audit(0, t.Audit)
	for _, d := range t.Deliveries {
		p.delivery(d)
	}
	if t.Cut {
		p.line(time.Time{}, 0, "the trace is longer; the rest is not shown")
	}
	return p.title, p.lines
}

func (t Trace) title(p *printer) {
	took := ""
	if !t.Ended.IsZero() {
		took = "in " + span(t.Ended.Sub(t.Started))
	}
	if len(t.Steps) == 0 && t.Agent == "" {
		p.head("%s: %s", t.ID, words(t.State, t.Error))
		p.head("%s in %s of %s, at %s", t.Sender, t.Conversation, t.Channel, t.Started.Format(time.RFC3339))
		return
	}
	p.head("turn %s: %s", t.ID, words(strings.TrimSpace(t.State+" "+took), t.Error))
	p.head("agent %s for %s, session %s, configuration %d, at %s", t.Agent, t.Sender, t.Session, t.Generation, t.Started.Format(time.RFC3339))
	if t.Parent != "" {
		p.head("delegated by turn %s in its call %s", t.Parent, words(t.ParentCall, when(t.Background, "in the background")))
	}
	p.head("%d tokens, $%s", t.Tokens, dollars(t.CostUSD))
}

// printer collects lines. It cleans all text, so that a stranger cannot add a line or move the cursor.
type printer struct {
	title []string
	lines []Line
	since time.Time
}

func (p *printer) head(format string, args ...any) {
	p.title = append(p.title, clean(fmt.Sprintf(format, args...)))
}

func (p *printer) line(at time.Time, depth int, format string, args ...any) {
	l := Line{at: at, Depth: depth, Text: clean(fmt.Sprintf(format, args...))}
	if !at.IsZero() && !p.since.IsZero() {
		l.At = "+" + span(max(at.Sub(p.since), 0))
	}
	p.lines = append(p.lines, l)
}

func (p *printer) decision(depth int, d Decision) {
	who := "policy " + d.By
	switch d.Kind {
	case "route_table":
		who = "route by the table"
	case "route":
		who = "route by policy " + d.By
	case "enforce":
		who = "decided by the host"
	case "wait":
		who = "the host"
	}
	cost := ""
	if d.Fuel > 0 || d.Nanos > 0 {
		cost = fmt.Sprintf("%d fuel in %s", d.Fuel, span(time.Duration(d.Nanos)))
	}
	failed := ""
	if d.Error != "" {
		failed = "failed: " + d.Error
	}
	reason := d.Reason
	if d.Kind == "enforce" {
		reason = "" // each restriction has its own line
	}
	answer := strings.TrimSpace(d.Answer)
	if answer == "" {
		answer = "no answer"
	}
	p.line(d.At, depth, "%s: %s", who, words(answer, reason, failed, cost))
}

// within prints the decision on a call that has no record of its own; the host's row names its tool.
func (p *printer) within(depth int, d Decision) {
	if d.Kind == "enforce" {
		p.line(d.At, depth, "a call within, decided by the host: %s", words(strings.TrimSpace(d.Answer), d.Reason))
		return
	}
	p.decision(depth, d)
}

func (p *printer) step(n int, s Step) {
	what := "model " + name(s)
	if s.Task != "" {
		what = s.Task + " by model " + name(s)
	}
	failed := ""
	if s.Error != "" {
		failed = "failed: " + s.Error
	}
	p.line(s.At, 0, "step %d, %s: %s", n, what, words(tokens(s.Tokens), "$"+dollars(s.CostUSD), s.Stop, failed))
	if len(s.Attempts) > 1 || len(s.Attempts) == 1 && (s.Attempts[0].Failure != "" || s.Attempts[0].Number > 1) {
		p.attempts(1, s.Attempts)
	}
	for _, c := range s.Calls {
		p.call(c)
	}
}

func name(s Step) string {
	model := strings.Trim(s.Provider+"/"+s.Model, "/")
	if s.Tier == "" {
		return model
	}
	return strings.TrimSpace(model + " (tier " + s.Tier + ")")
}

func (p *printer) attempts(depth int, list []Attempt) {
	for _, a := range list {
		result := "answered"
		if a.Failure != "" {
			result = "failed: " + a.Failure
		}
		p.line(a.At, depth, "attempt %d at %s: %s", a.Number, name(Step{Provider: a.Provider, Model: a.Model, Tier: a.Tier}),
			words(result, a.Task, tokens(a.Tokens), "$"+dollars(a.CostUSD)))
	}
}

func (p *printer) call(c ToolCall) {
	p.line(c.begun(), 1, "call %s: %s %s", c.ID, c.Tool, c.Args)
	for _, d := range c.Policies {
		p.decision(2, d)
	}
	for _, r := range c.Reasons {
		if strings.HasPrefix(r, "approved by ") { // this loosens
			p.line(time.Time{}, 2, "%s", r)
			continue
		}
		p.line(time.Time{}, 2, "restricted: %s", r)
	}
	then := len(p.lines)
	p.approvals(2, c.Approvals)
	p.audit(2, c.Audit)
	if c.Host != nil {
		p.decision(2, *c.Host)
	}
	inOrder(p.lines[then:])
	p.line(time.Time{}, 2, "outcome: %s", words(outcome(c), when(c.Interrupted, "interrupted by a restart")))
	for _, d := range c.Within {
		p.within(3, d)
	}
	if c.Child != "" {
		p.line(time.Time{}, 2, "delegated: turn %s", c.Child)
	}
	switch {
	case c.Ended.IsZero():
		p.line(time.Time{}, 2, "no result")
	case c.IsError:
		p.line(c.Ended, 2, "error: %s", quoted(c.Result))
	default:
		p.line(c.Ended, 2, "result: %s", quoted(c.Result))
	}
}

// inOrder sorts lines by their time. A line without a time stays after its predecessor.
func inOrder(lines []Line) {
	for i := range lines {
		if lines[i].at.IsZero() && i > 0 {
			lines[i].at = lines[i-1].at
		}
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return a.at.Compare(b.at) })
}

// begun returns when the decision on a call began, as far as it is recorded.
func (c ToolCall) begun() time.Time {
	switch {
	case len(c.Policies) > 0:
		return c.Policies[0].At
	case c.Host != nil:
		return c.Host.At
	}
	return c.Started
}

func outcome(c ToolCall) string {
	switch c.Outcome {
	case "":
		return "none, the turn ended before"
	case "run_in_sandbox":
		if c.Where == "own container" {
			return "ran in a container of its own"
		}
		return "ran in sandbox " + c.Where
	case "run":
		return "ran on the host"
	case "deny":
		return "denied"
	}
	return c.Outcome
}

func (p *printer) approvals(depth int, list []Approval) {
	for _, a := range list {
		p.line(a.Created, depth, "approval %s asked for %s: %s", a.ID, a.Tool, words(a.Reasons...))
		if a.Decided.IsZero() {
			p.line(time.Time{}, depth, "approval %s is %s until %s", a.ID, a.State, a.Expires.Format(time.RFC3339))
			continue
		}
		p.line(a.Decided, depth, "approval %s: %s", a.ID, words(answer(a), when(a.Decider != "", "by "+a.Decider),
			when(a.Scope != "", "for "+a.Scope), "after "+span(a.Decided.Sub(a.Created))))
	}
}

// answer describes the state of a request.
func answer(a Approval) string {
	switch {
	case a.State == "consumed":
		return "granted and used"
	case a.State == "withdrawn" && a.Decider != "":
		return "granted, but withdrawn because its call ended first"
	case a.State == "withdrawn":
		return "withdrawn because its call ended"
	}
	return a.State
}

func (p *printer) audit(depth int, list []Audit) {
	for _, a := range list {
		p.line(a.At, depth, "%s %s: %s", a.Kind, a.Subject, words(a.Actor, a.Tool, a.Detail))
	}
}

func (p *printer) delivery(d Delivery) {
	parts := when(d.Parts > 1, fmt.Sprintf("%d of %d parts", d.Delivered, d.Parts))
	next := ""
	if d.State == "pending" && !d.NextTry.IsZero() {
		next = "next try at " + d.NextTry.Format(time.RFC3339)
	}
	p.line(time.Time{}, 0, "delivery %s to %s: %s", d.Key, d.Channel,
		words(d.State, fmt.Sprintf("attempts %d", d.Attempts), parts, d.Note, next, strings.Join(d.PlatformIDs, " "), quoted(d.Text)))
}

// words joins the parts that are not empty.
func words(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func tokens(t Tokens) string {
	text := fmt.Sprintf("%d in, %d out", t.Input, t.Output)
	if t.CacheRead+t.CacheWrite > 0 {
		text += fmt.Sprintf(", %d read from and %d written to the cache", t.CacheRead, t.CacheWrite)
	}
	return text + when(t.Estimated, " (estimated)")
}

func dollars(usd float64) string { return fmt.Sprintf("%.4f", usd) }

// span formats a duration with about three digits. It may be negative, as the machine's clock may be set back.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "an unknown time (the clock was set back)"
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// shown bounds the characters of a text in a line.
const shown = 160

func quoted(text string) string {
	if text == "" {
		return ""
	}
	text = strings.Join(strings.Fields(text), " ")
	if cut := []rune(text); len(cut) > shown {
		text = string(cut[:shown]) + "..."
	}
	return `"` + text + `"`
}

// clean replaces characters that end a line, move the cursor or reverse text.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}
