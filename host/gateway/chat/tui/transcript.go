package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// transcript is a conversation as it is shown: what is finished is emitted once, as lines for the scrollback, and the rest is kept. Events
// and histories may repeat each other.
type transcript struct {
	paper
	out   []string // finished lines
	began bool     // something was emitted before

	seen    map[string]bool // identities of what was emitted
	waiting []*said         // messages that no turn has taken
	calls   []*call         // that run
	stream  stream
	running bool
	turn    string
	agent   string
	ordinal int // calls of the turn so far, which tell its texts apart
}

// said is a message of a person.
type said struct {
	key, text string
	files     []string // their names
	own       bool     // sent from here
	accepted  bool
}

func newTranscript(p paper) *transcript { return &transcript{paper: p, seen: map[string]bool{}} }

// Identities of what is shown.
func userID(key string) string               { return "user " + key }
func replyID(key string) string              { return "reply " + key }
func failureID(turn string) string           { return "failure " + turn }
func begunID(turn, call string) string       { return "begun " + turn + " " + call }
func callID(turn, call string) string        { return "call " + turn + " " + call }
func textID(turn string, ordinal int) string { return fmt.Sprintf("text %s %d", turn, ordinal) }

// once reports whether something is to be shown, and notes that it was.
func (t *transcript) once(id string) (first bool) {
	first = !t.seen[id]
	t.seen[id] = true
	return first
}

// emit adds a block of finished lines, apart from the one before.
func (t *transcript) emit(lines []string) {
	if len(lines) == 0 {
		return
	}
	if t.began {
		t.out = append(t.out, "")
	}
	t.began = true
	t.out = append(t.out, lines...)
}

func (t *transcript) emitNote(text string) { t.emit(t.note(text)) }

// event shows one event.
func (t *transcript) event(e message.Event) {
	if e.Turn != "" && e.Turn != t.turn {
		if t.running {
			t.aside(e)
			return
		}
		t.begin(e.Turn, e.Agent)
	}
	switch e.Kind {
	case message.Said:
		t.heard(e.Key, e.Text)
	case message.TurnStarted:
		t.running = true
		t.answers(e)
	case message.TextDelta:
		t.stream.text += e.Text
	case message.TextReset:
		t.stream.text = ""
	case message.ToolCall, message.ToolDecision, message.ToolApproval, message.ToolProgress:
		t.callEvent(e)
	case message.ToolResult:
		t.result(e)
	case message.ReplyReady:
		if t.once(replyID(e.Key)) {
			t.settle(e.Text)
		}
	case message.TurnFailed:
		t.failure(e.Turn, e.Text)
	case message.TurnDone:
		t.end()
	}
	t.advance()
}

// aside shows what another turn says while one runs, such as a command's answer. It leaves the state alone.
func (t *transcript) aside(e message.Event) {
	switch e.Kind {
	case message.TurnStarted:
		t.answers(e)
	case message.ReplyReady:
		if t.once(replyID(e.Key)) {
			t.emit(t.markdown(e.Text))
		}
	case message.TurnFailed:
		if t.once(failureID(e.Turn)) {
			t.emit(t.text(t.red("✗ "), "  ", e.Text))
		}
	}
}

// begin turns to another turn.
func (t *transcript) begin(turn, agent string) {
	t.turn, t.agent, t.ordinal, t.calls, t.stream = turn, cmp.Or(agent, t.agent), 0, nil, stream{} // the host's own answers have no agent
}

// heard notes a message that waits for its turn.
func (t *transcript) heard(key, text string) {
	if t.seen[userID(key)] {
		return
	}
	if s := t.find(key); s != nil {
		s.accepted = true
		return
	}
	t.waiting = append(t.waiting, &said{key: key, text: text, accepted: true})
}

func (t *transcript) find(key string) *said {
	i := slices.IndexFunc(t.waiting, func(s *said) bool { return s.key == key })
	if i < 0 {
		return nil
	}
	return t.waiting[i]
}

// accepted notes that a message is durable.
func (t *transcript) accept(key string) {
	if s := t.find(key); s != nil {
		s.accepted = true
	}
}

// pending reports whether a message of this program is not durable yet.
func (t *transcript) pending() bool {
	return slices.ContainsFunc(t.waiting, func(s *said) bool { return s.own && !s.accepted })
}

// answers emits the messages that a turn answers.
func (t *transcript) answers(e message.Event) {
	for _, key := range e.Answers {
		text := e.Text
		if len(e.Answers) > 1 && t.find(key) == nil {
			continue // its text is not known; the history has it
		}
		t.user(key, text)
	}
}

// user emits a message of a person.
func (t *transcript) user(key, text string) {
	s := t.find(key)
	t.waiting = slices.DeleteFunc(t.waiting, func(w *said) bool { return w.key == key })
	if !t.once(userID(key)) {
		return
	}
	if s == nil {
		s = &said{text: text}
	}
	t.emit(t.withFiles(s))
}

func (t *transcript) withFiles(s *said) []string {
	lines := t.said(s.text)
	for _, f := range s.files {
		lines = append(lines, t.dim("  attached: "+t.short(f, t.width-12)))
	}
	return lines
}

// settle emits what is left of a text.
func (t *transcript) settle(text string) {
	rest, joined, again := t.stream.settle(text)
	t.part(rest, joined, again)
}

// advance emits what is finished of the streaming text.
func (t *transcript) advance() {
	for {
		text, joined, again := t.stream.advance()
		if text == "" {
			return
		}
		t.part(text, joined, again)
	}
}

func (t *transcript) part(source string, joined, again bool) {
	if again {
		t.emitNote("the answer was cut off and starts again:")
	}
	lines := t.markdown(source)
	if len(lines) == 0 && strings.TrimSpace(source) != "" && !joined {
		lines = t.text("", "", source) // such as the address of a link by name
	}
	if joined {
		t.out = append(t.out, lines...)
		return
	}
	t.emit(lines)
}

// failure emits why a turn has no answer.
func (t *transcript) failure(turn, text string) {
	if !t.once(failureID(turn)) {
		return
	}
	t.settle(t.stream.text)
	for _, c := range t.calls {
		t.emit(c.finished(t.paper, "was ended", ""))
	}
	t.calls = nil
	t.emit(t.text(t.red("✗ "), "  ", text))
}

// end ends the turn.
func (t *transcript) end() {
	if t.stream.live() != "" {
		t.settle(t.stream.text)
	}
	t.running, t.calls, t.stream = false, nil, stream{}
}

// history shows what is new of a history, and takes it as the state.
func (t *transcript) history(entries []gateway.Entry, live []message.Event) {
	turn, ordinal, agent := t.turn, t.ordinal, t.agent
	t.calls, t.stream.text, t.running = nil, "", false
	t.turn, t.ordinal = "", 0
	for _, e := range entries {
		if e.Turn != "" && e.Turn != t.turn {
			t.turn, t.agent, t.ordinal = e.Turn, cmp.Or(e.Agent, t.agent), 0
		}
		t.entry(e, e.Turn == turn && t.ordinal == ordinal)
		if e.Turn != "" {
			t.running = !e.Final()
		}
	}
	t.forgotten(entries)
	if t.turn != turn && turn != "" && slices.ContainsFunc(live, func(e message.Event) bool { return e.Turn == turn }) {
		t.turn, t.ordinal, t.agent, t.running = turn, 0, agent, true // it goes on, and has committed nothing yet
	}
	ended, runs := t.known(entries, live)
	t.ordinal += ended
	if t.turn != turn || t.ordinal+runs != ordinal || !t.running {
		t.stream = stream{}
	}
	shown := t.shown(live)
	for i, e := range live {
		if i < shown && (e.Kind == message.TextDelta || e.Kind == message.TextReset) {
			continue
		}
		t.event(e)
	}
}

// known counts the calls of the turn that were shown, ended or while they run, and that the history does not have yet.
func (t *transcript) known(entries []gateway.Entry, live []message.Event) (ended, runs int) {
	counted := map[string]bool{}
	for _, e := range entries {
		if e.Turn == t.turn && e.Call != nil {
			counted[e.Call.ID] = true
		}
	}
	for _, e := range live {
		if e.Turn != t.turn || e.Call == "" || counted[e.Call] {
			continue
		}
		counted[e.Call] = true
		if t.seen[callID(e.Turn, e.Call)] {
			ended++
		} else if t.seen[begunID(e.Turn, e.Call)] {
			runs++
		}
	}
	return ended, runs
}

// shown returns how many of the events tell only of text that is there already: the text before a call or a reply is emitted before that.
func (t *transcript) shown(live []message.Event) (n int) {
	for i, e := range live {
		if e.Kind == message.ReplyReady && t.seen[replyID(e.Key)] || e.Call != "" && t.seen[begunID(e.Turn, e.Call)] {
			n = i
		}
	}
	return n
}

// entry shows one entry. streamed is true if it is the text that was streaming.
func (t *transcript) entry(e gateway.Entry, streamed bool) {
	if !streamed && e.From == gateway.FromAgent && e.Turn != "" {
		defer func(s stream) { t.stream = s }(t.stream)
		t.stream = stream{}
	}
	switch {
	case e.From == gateway.FromUser && e.Turn == "":
		t.heard(e.Key, e.Text)
	case e.From == gateway.FromUser:
		t.user(e.Key, e.Text)
	case e.From == gateway.FromTool && e.Call != nil:
		t.past(e)
	case e.IsError:
		if t.once(failureID(e.Turn)) {
			t.emit(t.text(t.red("✗ "), "  ", e.Text))
		}
	case e.Final():
		if t.once(replyID(e.Key)) {
			t.settle(e.Text)
		}
	case t.once(textID(e.Turn, t.ordinal)):
		t.settle(e.Text)
	}
}

// forgotten emits own messages that were accepted and are not in the history: a command that was answered meanwhile.
func (t *transcript) forgotten(entries []gateway.Entry) {
	for _, s := range slices.Clone(t.waiting) {
		known := slices.ContainsFunc(entries, func(e gateway.Entry) bool { return e.From == gateway.FromUser && e.Key == s.key })
		if s.accepted && !known {
			t.user(s.key, s.text)
			t.emitNote("(answered while the connection was lost)")
		}
	}
}
