package explain

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Bounds of one text in a trace, in bytes. The whole is in the store.
const maxText = 2000

// New makes a trace of the records of a turn.
func New(t turnlog.Trail) (Trace, error) {
	b := builder{trail: t}
	if err := b.steps(); err != nil {
		return Trace{}, err
	}
	b.head()
	b.messages()
	b.decisions()
	b.approvals()
	b.audit()
	b.children()
	b.usage()
	b.deliveries()
	return b.trace, nil
}

// builder fills in a trace: first the steps, then the records that belong to them.
type builder struct {
	trail turnlog.Trail
	trace Trace
	calls []*ToolCall // in the order of the decisions
}

func (b *builder) head() {
	t := b.trail.Turn
	tr := &b.trace
	tr.ID, tr.Agent, tr.Session, tr.Channel, tr.Conversation, tr.Sender = t.ID, t.Agent, t.Session, t.Channel, t.Conversation.ID, t.Sender
	tr.State, tr.Error, tr.Started, tr.Ended = string(t.State), short(t.Error), t.Started, t.Ended
	tr.Parent, tr.ParentCall, tr.Background, tr.Cut = t.Parent, t.ParentCall, t.Background, b.trail.Cut
	if t.ID == "" && len(b.trail.Inbox) > 0 {
		row := b.trail.Inbox[0]
		tr.ID, tr.State, tr.Error = mailbox.MessageID(row.ID), string(row.State), short(row.Note)
		tr.Channel, tr.Conversation, tr.Sender = row.Message.Channel, row.Message.Conversation.ID, row.Message.SenderKey()
		tr.Started = row.Message.ReceivedAt
	}
}

func (b *builder) messages() {
	b.trace.Messages = []Message{}
	for _, r := range b.trail.Inbox {
		b.trace.Messages = append(b.trace.Messages, Message{
			Row: r.ID, Event: r.Message.EventID, Sender: r.Message.SenderKey(), Text: short(r.Message.Text), State: string(r.State),
			Note: short(r.Note), At: r.Message.ReceivedAt,
		})
	}
}

// steps decodes the turn's steps.
func (b *builder) steps() error {
	b.trace.Steps = []Step{}
	for _, s := range b.trail.Steps {
		if err := b.step(s); err != nil {
			return fmt.Errorf("decode step %d of turn %s: %w", s.Seq, s.Turn, err)
		}
	}
	for i := range b.trace.Steps {
		for j := range b.trace.Steps[i].Calls {
			if c := &b.trace.Steps[i].Calls[j]; c.Outcome != "" {
				b.calls = append(b.calls, c)
			}
		}
	}
	return nil
}

func (b *builder) step(s turnlog.Step) error {
	switch s.Kind {
	case turnlog.StepUser:
		var u transcript.UserStep
		err := json.Unmarshal(s.Data, &u)
		b.trace.Generation = u.Generation
		if u.Delegated != nil && len(u.Said) > 0 {
			b.trace.Task = short(u.Said[0].Text)
		}
		return err
	case turnlog.StepTask:
		var u transcript.TaskStep
		err := json.Unmarshal(s.Data, &u)
		b.trace.Steps = append(b.trace.Steps, Step{
			Seq: s.Seq, At: s.At, Task: string(u.Task), Tier: u.Tier, Provider: u.Provider, Model: u.Model, Error: short(u.Error),
			Tokens: tokensOf(u.Usage), CostUSD: u.Usage.CostUSD,
		})
		return err
	case turnlog.StepCondensed:
		b.trace.Steps = append(b.trace.Steps, Step{Seq: s.Seq, At: s.At, Task: "condensed"})
		return nil
	case turnlog.StepModel:
		var m transcript.ModelStep
		if err := json.Unmarshal(s.Data, &m); err != nil {
			return err
		}
		b.answer(s, m)
		return nil
	case turnlog.StepToolStart:
		var v transcript.ToolStart
		if err := json.Unmarshal(s.Data, &v); err != nil {
			return err
		}
		c, err := b.call(v)
		if err == nil {
			c.Started = s.At
		}
		return err
	case turnlog.StepToolResult:
		var v transcript.ToolResult
		if err := json.Unmarshal(s.Data, &v); err != nil {
			return err
		}
		c, err := b.call(v.ToolStart)
		if err == nil {
			c.Ended, c.Result, c.IsError, c.Interrupted = s.At, short(v.Result.Text), v.Result.IsError, v.Interrupted
		}
		return err
	}
	return fmt.Errorf("unknown kind %q", s.Kind)
}

func (b *builder) answer(s turnlog.Step, m transcript.ModelStep) {
	step := Step{
		Seq: s.Seq, At: s.At, Tier: m.Tier, Provider: m.Provider, Model: m.Model, Stop: string(m.Stop), Tokens: tokensOf(m.Usage), CostUSD: m.Usage.CostUSD,
	}
	for _, c := range m.Message.Calls {
		step.Calls = append(step.Calls, ToolCall{ID: c.ID, Tool: c.Name})
	}
	b.trace.Steps = append(b.trace.Steps, step)
}

// call finds a call of the last answer, as a turn does, and sets the decision about it.
func (b *builder) call(v transcript.ToolStart) (*ToolCall, error) {
	for i := len(b.trace.Steps) - 1; i >= 0; i-- {
		step := &b.trace.Steps[i]
		if step.Task != "" {
			continue
		}
		for j := range step.Calls {
			if c := &step.Calls[j]; c.ID == v.Call {
				c.Tool, c.Args, c.Outcome, c.Where, c.Reasons = v.Tool, shortArgs(v.Args), v.Decision, v.Where, shortAll(v.Reasons)
				return c, nil
			}
		}
		break
	}
	return nil, fmt.Errorf("call %.64q belongs to no answer", v.Call)
}

// short is the beginning of a text.
func short(s string) string {
	head := strings.ToValidUTF8(cut.Head(s, maxText), "\uFFFD")
	if len(s) <= maxText {
		return head
	}
	return head + " [...]"
}

// maxReasons bounds the reasons that are shown of one call.
const maxReasons = 50

func shortAll(list []string) []string {
	var out []string
	for _, text := range list[:min(len(list), maxReasons)] {
		out = append(out, short(text))
	}
	return out
}

func shortArgs(args json.RawMessage) json.RawMessage {
	if len(args) <= maxText && json.Valid(args) {
		return args
	}
	if len(args) == 0 {
		return nil
	}
	text, err := jsonform.Marshal(short(string(args)))
	if err != nil {
		return nil
	}
	return text
}
