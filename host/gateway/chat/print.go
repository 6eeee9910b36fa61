package chat

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client/link"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/internal/terminal"
	"github.com/flynnhost/flynn/host/message"
)

// outputLines bounds the lines of a tool's output that are shown.
const outputLines = 6

// printer does all printing. Answers go to out; everything else goes to err, dimmed on a terminal. Control characters are
// removed from both.
type printer struct {
	out, err    io.Writer
	json, color bool
	// open is true while the cursor is behind text without a newline, which prompted marks as a prompt; both writers may
	// share a screen.
	open     bool
	prompted bool
	streamed string                   // text of the answer so far
	calls    map[string]message.Event // by call id
	replies  map[string]bool          // keys that were printed
}

func newPrinter(cfg Config) *printer {
	return &printer{
		out: cfg.Out, err: cfg.Err, json: cfg.JSON, color: cfg.Color,
		calls: map[string]message.Event{}, replies: map[string]bool{},
	}
}

// seen marks a reply as printed.
func (p *printer) seen(key string) {
	if key != "" {
		p.replies[key] = true
	}
}

// event prints one event.
func (p *printer) event(e message.Event) {
	if e.Kind == message.ReplyReady && p.replies[e.Key] {
		return
	}
	if p.json {
		p.line(e)
		if e.Kind == message.ReplyReady {
			p.seen(e.Key)
		}
		return
	}
	switch e.Kind {
	case message.TextDelta:
		p.stream(e.Text)
	case message.TextReset:
		p.breakLine()
		p.note("the answer was cut off and starts again")
		p.streamed = ""
	case message.ToolCall:
		p.breakLine()
		p.streamed = ""
		p.calls[e.Call] = e
	case message.ToolDecision:
		p.decision(e)
	case message.ToolProgress:
		if e.Waiting {
			p.note("  " + strings.TrimRight(e.Text, "\n"))
		}
	case message.ToolResult:
		p.result(e)
		delete(p.calls, e.Call)
	case message.ReplyReady:
		p.reply(e.Key, e.Text)
	case message.TurnFailed:
		p.breakLine()
		p.note("failed: " + e.Text)
	case message.TurnDone:
		p.breakLine()
		p.streamed = ""
	}
}

// past prints a final entry of the history.
func (p *printer) past(e gateway.Entry) {
	kind := message.ReplyReady
	if e.IsError {
		kind = message.TurnFailed
	}
	p.event(message.Event{Kind: kind, Turn: e.Turn, Agent: e.Agent, Text: e.Text, Key: e.Key, IsError: e.IsError})
}

func (p *printer) line(v any) {
	data, err := jsonform.Marshal(v)
	if err != nil {
		p.note("cannot print an event: " + err.Error())
		return
	}
	fmt.Fprintf(p.out, "%s\n", data)
}

func (p *printer) stream(text string) {
	if p.prompted {
		p.breakLine()
	}
	p.streamed += text
	p.write(text)
}

// reply prints the rest of an answer, or all of it if the stream was different.
func (p *printer) reply(key, text string) {
	p.seen(key)
	if rest, ok := strings.CutPrefix(text, p.streamed); ok {
		p.stream(rest)
	} else {
		p.breakLine()
		p.write(text)
	}
	p.streamed = ""
	p.breakLine()
}

func (p *printer) write(text string) {
	if text == "" {
		return
	}
	fmt.Fprint(p.out, terminal.Clean(text))
	p.open = !strings.HasSuffix(text, "\n")
}

func (p *printer) decision(e message.Event) {
	words := map[string]string{
		"run": link.Place(e.Where), "run_in_sandbox": link.Place(e.Where), "ask": "asks first, " + link.Place(e.Where), "deny": "denied",
	}[e.Decision]
	if words == "" {
		words = e.Decision
	}
	p.note(fmt.Sprintf("%s %s [%s]", e.Tool, oneLine(link.Gist(p.calls[e.Call].Args)), words))
	for _, r := range e.Reasons {
		p.note("  " + r)
	}
}

func (p *printer) result(e message.Event) {
	text := strings.TrimRight(e.Text, "\n")
	if text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	for _, l := range lines[:min(len(lines), outputLines)] {
		p.note("  | " + l)
	}
	if more := len(lines) - outputLines; more > 0 {
		p.note(fmt.Sprintf("  | ... %d more lines", more))
	}
}

// request prints a whole call: a person must see everything that is approved.
func (p *printer) request(a gateway.Approval) {
	p.breakLine()
	fmt.Fprintf(p.err, "Allow %s to run %s?\n", terminal.Reveal(a.Tool), terminal.Reveal(link.Place(a.Where)))
	_, args, err := jsonform.Canonical(a.Args)
	if err != nil {
		p.field("arguments", string(a.Args))
	}
	names := slices.Sorted(maps.Keys(args))
	if i := slices.Index(names, "command"); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "command")
	}
	for _, name := range names {
		text, ok := args[name].(string)
		if !ok {
			data, _ := jsonform.Marshal(args[name])
			text = string(data)
		}
		p.field(name, text)
	}
	p.field("not shown, but followed", strings.Join(a.Unshown, "; "))
	p.field("limits", a.NotHeld)
	p.field("folder", a.Dir)
	p.field("agent", a.Agent)
	for _, r := range a.Reasons {
		p.field("because", r)
	}
}

func (p *printer) field(name, text string) {
	if text != "" {
		fmt.Fprintf(p.err, "  %s: %s\n", terminal.Reveal(name), strings.ReplaceAll(terminal.Reveal(text), "\n", "\n    "))
	}
}

// ask prints a request and what each answer covers: y allows only this call.
func (p *printer) ask(a gateway.Approval) {
	p.request(a)
	if a.MaySession {
		p.field("s allows from now on", a.SessionCovers)
		p.field("s is as good as a shell", a.SessionShell)
	}
	if a.MayStanding {
		p.field("a allows from now on", a.StandingCovers)
	}
	p.question(a)
}

func (p *printer) again(a gateway.Approval) {
	letters := answers(a)
	last := len(letters) - 1
	fmt.Fprintf(p.err, "Please answer %s or %s.\n", strings.Join(letters[:last], ", "), strings.ToLower(letters[last]))
	p.question(a)
}

// answers are the letters with which a request can be answered.
func answers(a gateway.Approval) []string {
	letters := []string{"y"}
	if a.MaySession {
		letters = append(letters, "s")
	}
	if a.MayStanding {
		letters = append(letters, "a")
	}
	return append(letters, "N")
}

func (p *printer) question(a gateway.Approval) {
	fmt.Fprintf(p.err, "[%s] ", strings.Join(answers(a), "/"))
	p.open, p.prompted = true, true
}

func (p *printer) prompt() {
	if p.prompted {
		return
	}
	p.breakLine()
	fmt.Fprint(p.err, "> ")
	p.open, p.prompted = true, true
}

// lineRead notes that the person's Enter has moved the cursor.
func (p *printer) lineRead() { p.open, p.prompted = false, false }

// note prints a dim line of its own.
func (p *printer) note(text string) {
	p.breakLine()
	text = terminal.Reveal(text)
	if p.color {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(p.err, text)
}

// breakLine moves to a fresh line. The newline goes to out, where the text was, unless that was a prompt.
func (p *printer) breakLine() {
	if !p.open {
		return
	}
	if p.prompted {
		fmt.Fprintln(p.err)
	} else {
		fmt.Fprintln(p.out)
	}
	p.open, p.prompted = false, false
}

func (p *printer) end() { p.breakLine() }

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return s
}
