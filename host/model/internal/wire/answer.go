package wire

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/model"
)

// Answer assembles an answer from its pieces and emits its text as it comes.
type Answer struct {
	emit  func(model.Delta)
	text  strings.Builder
	held  string // the first bytes of a character whose rest has not come
	calls []*Call
}

// Call is a tool call in the making.
type Call struct {
	ID, Name string
	Args     strings.Builder
}

// NewAnswer begins an answer.
func NewAnswer(emit func(model.Delta)) *Answer { return &Answer{emit: emit} }

// Text adds a piece of text. Bytes that are no UTF-8 become U+FFFD; a character split between two
// pieces stays whole.
func (a *Answer) Text(piece string) {
	piece = a.held + piece
	whole := len(piece) - unfinished(piece)
	a.held = piece[whole:]
	a.say(piece[:whole])
}

func (a *Answer) say(s string) {
	if s == "" {
		return
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	a.text.WriteString(s)
	a.emit(model.Delta{Text: s})
}

// unfinished counts the bytes at the end of s that begin a character and do not end it.
func unfinished(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if c := s[len(s)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Call begins a tool call.
func (a *Answer) Call(id, name string) *Call {
	call := &Call{ID: id, Name: name}
	a.calls = append(a.calls, call)
	return call
}

// Message ends the answer. Calls without an id, or with the id of another call, get a new one.
func (a *Answer) Message(names *Names) model.Message {
	a.say(a.held)
	a.held = ""
	m := model.Message{Role: model.Assistant, Text: a.text.String()}
	seen := make(map[string]bool, len(a.calls))
	for _, call := range a.calls {
		id := call.ID
		if id == "" || seen[id] {
			id = NewID()
		}
		seen[id] = true
		m.Calls = append(m.Calls, model.ToolCall{ID: id, Name: names.Back(call.Name), Args: Args(call.Args.String())})
	}
	return m
}

// Whole reports whether the call's arguments are a complete JSON value.
func (c *Call) Whole() bool { return json.Valid([]byte(c.Args.String())) }

// Estimate counts tokens for a server that gives no figures, at the usual four bytes each.
func Estimate(req model.Request, answer model.Message) model.Usage {
	input := len(req.System)
	for _, m := range req.Messages {
		input += size(m)
	}
	for _, t := range req.Tools {
		input += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return model.Usage{Input: (input + 3) / 4, Output: (size(answer) + 3) / 4, Estimated: true}
}

func size(m model.Message) int {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Args)
	}
	for _, r := range m.Results {
		n += len(r.Text)
	}
	return n
}
