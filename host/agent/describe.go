package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
)

// Piece is one piece of a turn for people: something said, an agent's text, or a tool call.
type Piece struct {
	Said    bool // by the sender
	Text    string
	At      time.Time
	Key     string // event id of what was said, or idempotency key of the reply
	IsError bool
	Call    *ToolStart
	Done    bool // the call has its result, which is Text
}

// Describe tells a turn from its steps, oldest piece first. reply is the text that ended it, where it was not the
// model's own.
func Describe(t turnlog.Turn, steps []turnlog.Step, reply string) ([]Piece, error) {
	ts, err := decodeTurn(steps)
	if err != nil {
		return nil, err
	}
	var out []Piece
	// The next turn has what was said in one that was stopped for it.
	released := t.State == turnlog.TurnStopped && len(t.Inbox) == 0 && t.Error != errStopped.Error()
	for _, s := range ts.user.Said {
		if !released {
			out = append(out, Piece{Said: true, Text: s.Text, At: s.At, Key: s.Event})
		}
	}
	for i, e := range ts.entries {
		final := i == len(ts.entries)-1 && t.State == turnlog.TurnDone
		if text := e.answer.Message.Text; text != "" && !final {
			out = append(out, Piece{Text: text, At: t.Started})
		}
		for _, c := range e.answer.Message.Calls {
			out = append(out, e.describe(c.ID, c.Name, t))
		}
	}
	switch {
	case released:
		out = append(out, Piece{Text: "This answer was " + t.Error + ".", At: t.Ended, IsError: true})
	case t.State == turnlog.TurnDone:
		out = append(out, Piece{Text: ts.entries[len(ts.entries)-1].answer.Message.Text, At: t.Ended, Key: replyKey(t.ID)})
	case t.State == turnlog.TurnStopped, t.State == turnlog.TurnFailed:
		out = append(out, Piece{Text: reply, At: t.Ended, Key: replyKey(t.ID), IsError: true})
	}
	return out, nil
}

// Check tells what is wrong with a turn that comes from elsewhere: with it, everything that reads turns could go on.
func Check(t turnlog.Turn, steps []turnlog.Step) error {
	ts, err := decodeTurn(steps)
	if err != nil {
		return err
	}
	for i, s := range steps {
		if s.Turn != t.ID || s.Seq != i || (s.Kind == turnlog.StepUser) != (i == 0) {
			return fmt.Errorf("step %d of turn %s is out of its place", s.Seq, t.ID)
		}
	}
	n := len(ts.entries)
	switch t.State {
	case turnlog.TurnDone:
		if n == 0 || len(ts.entries[n-1].answer.Message.Calls) > 0 {
			return fmt.Errorf("turn %s is done without an answer", t.ID)
		}
	case turnlog.TurnFailed, turnlog.TurnStopped:
	default:
		return fmt.Errorf("turn %s has the state %q", t.ID, t.State)
	}
	return nil
}

// Imported labels the steps of a turn that comes from elsewhere, so that policies know that its words are nobody's here.
func Imported(steps []turnlog.Step) ([]turnlog.Step, error) {
	out := slices.Clone(steps)
	for i, s := range out {
		if s.Kind != turnlog.StepUser {
			continue
		}
		var u UserStep
		if err := json.Unmarshal(s.Data, &u); err != nil {
			return nil, fmt.Errorf("decode step %d of turn %s: %w", s.Seq, s.Turn, err)
		}
		u.Labels = ImportedLabels(u.Labels)
		out[i].Data = encode(u)
	}
	return out, nil
}

// ImportedLabels are labels from elsewhere in their form, with the one that says so.
func ImportedLabels(labels []string) []string {
	return tool.JoinLabels([]string{tool.Imported}, labels)
}

func (e *entry) describe(id, name string, t turnlog.Turn) Piece {
	start := ToolStart{Call: id, Tool: name}
	if s, ok := e.started[id]; ok {
		start = s
	}
	p := Piece{At: t.Started, Call: &start}
	if r, ok := e.results[id]; ok {
		p.Call, p.Done, p.Text, p.IsError = &r.ToolStart, true, r.Result.Text, r.Result.IsError
	} else if t.State != turnlog.TurnRunning {
		p.Done, p.Text, p.IsError = true, e.result(id).Text, true
	}
	return p
}

// replyKey is the idempotency key of a turn's reply. Words before it have other keys.
func replyKey(turn string) string { return turn + "/0" }

// IsAnswer says whether a reply of a turn is its answer, and not a word before it.
func IsAnswer(turn string, r message.Reply) bool { return r.Key == replyKey(turn) }
