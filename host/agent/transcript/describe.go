package transcript

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
)

// Piece is one piece of a turn for people: a message, an agent's text, or a tool call.
type Piece struct {
	Said    bool // the sender's message
	Text    string
	At      time.Time
	Key     string // event id of a message, or idempotency key of a reply
	IsError bool
	Files   []string // names of the files of a message
	Call    *ToolStart
	Done    bool // the call has a result, which is in Text
}

// StoppedByPerson is the error of a turn that a person stopped.
const StoppedByPerson = "stopped by a person"

// Describe returns the pieces of a turn, oldest first. reply is the text that ended it, if it is not the model's.
func Describe(t turnlog.Turn, steps []turnlog.Step, reply string) ([]Piece, error) {
	s, err := Read(steps)
	if err != nil {
		return nil, err
	}
	var out []Piece
	// The messages of a released turn appear in the next one.
	released := t.State == turnlog.TurnStopped && len(t.Inbox) == 0 && t.Error != StoppedByPerson
	for _, said := range s.User.Said {
		if !released {
			out = append(out, Piece{Said: true, Text: said.Text, At: said.At, Key: said.Event, Files: fileNames(said)})
		}
	}
	for i, a := range s.Answers {
		final := i == len(s.Answers)-1 && t.State == turnlog.TurnDone
		if text := a.Message.Text; text != "" && !final {
			out = append(out, Piece{Text: text, At: t.Started})
		}
		for _, c := range a.Message.Calls {
			out = append(out, a.describe(c.ID, c.Name, t))
		}
	}
	switch {
	case released:
		out = append(out, Piece{Text: "This answer was " + t.Error + ".", At: t.Ended, IsError: true})
	case t.State == turnlog.TurnDone:
		out = append(out, Piece{Text: s.Text(), At: t.Ended, Key: ReplyKey(t.ID)})
	case t.State == turnlog.TurnStopped, t.State == turnlog.TurnFailed:
		out = append(out, Piece{Text: reply, At: t.Ended, Key: ReplyKey(t.ID), IsError: true})
	}
	return out, nil
}

func fileNames(s Said) []string {
	var names []string
	for _, f := range s.Files {
		names = append(names, cmp.Or(f.Name, f.Type, "file"))
	}
	return names
}

func (a *Answer) describe(id, name string, t turnlog.Turn) Piece {
	p := Piece{At: t.Started, Call: a.Start(id)}
	if p.Call == nil {
		p.Call = &ToolStart{Call: id, Tool: name}
	}
	if r := a.Result(id); r != nil {
		p.Call, p.Done, p.Text, p.IsError = &r.ToolStart, true, r.Result.Text, r.Result.IsError
	} else if t.State != turnlog.TurnRunning {
		p.Done, p.Text, p.IsError = true, a.shown(id).Text, true
	}
	return p
}

// ReplyKey returns the idempotency key of a turn's reply. Notices before the reply have other keys.
func ReplyKey(turn string) string { return turn + "/0" }

// IsAnswer reports whether a reply of a turn is its answer rather than an earlier notice.
func IsAnswer(turn string, r message.Reply) bool { return r.Key == ReplyKey(turn) }

// Check validates a turn from another host, so that all code that reads turns can handle it.
func Check(t turnlog.Turn, steps []turnlog.Step) error {
	s, err := Read(steps)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(steps, func(s turnlog.Step) bool { return s.Turn != t.ID }); i >= 0 {
		return fmt.Errorf("step %d belongs to turn %s and not to turn %s", i, steps[i].Turn, t.ID)
	}
	switch t.State {
	case turnlog.TurnDone:
		if a := s.last(); a == nil || len(a.Message.Calls) > 0 {
			return fmt.Errorf("turn %s is done without an answer", t.ID)
		}
	case turnlog.TurnFailed, turnlog.TurnStopped:
	default:
		return fmt.Errorf("turn %s has the state %q", t.ID, t.State)
	}
	return nil
}

// Imported labels the steps of a turn from another host, so that policies can tell.
func Imported(steps []turnlog.Step) ([]turnlog.Step, error) {
	out := slices.Clone(steps)
	for i, s := range out {
		if s.Kind != turnlog.StepUser {
			continue
		}
		err := decode(s, func(u UserStep) error {
			u.Labels = ImportedLabels(u.Labels)
			out[i].Data = Encode(u)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("decode step %d of turn %s: %w", s.Seq, s.Turn, err)
		}
	}
	return out, nil
}

// ImportedLabels returns the valid ones of foreign labels, and the label tool.Imported.
func ImportedLabels(labels []string) []string {
	return tool.JoinLabels([]string{tool.Imported}, labels)
}

// Tokens returns the tokens of a turn's model calls.
func Tokens(steps []turnlog.Step) (input, output int, err error) {
	s, err := Read(steps)
	for _, a := range s.Answers {
		input += a.Usage.Input + a.Usage.CacheRead + a.Usage.CacheWrite
		output += a.Usage.Output
	}
	return input, output, err
}

// Called returns the result of the call that a client asked for, from the steps of its turn.
func Called(steps []turnlog.Step) (text string, failed bool, err error) {
	s, err := Read(steps)
	if err != nil {
		return "", true, err
	}
	if len(s.Answers) == 0 || len(s.Answers[0].Calls) == 0 {
		return "", true, nil
	}
	r := s.Answers[0].shown(s.Answers[0].Message.Calls[0].ID)
	return r.Text, r.IsError, nil
}
