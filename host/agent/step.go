package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
)

// The records that steps hold as JSON. A field is never renamed: old turns are read for ever.

// UserStep opens a turn: what was said.
type UserStep struct {
	Notes      []string   `json:"notes,omitempty"`    // of what was done to earlier messages since the turn before, a line each
	Recalled   []Recalled `json:"recalled,omitempty"` // of what is remembered about the speaker
	Said       []Said     `json:"said"`
	Group      bool       `json:"group,omitempty"` // more people than the speaker and Flynn may be there
	Generation uint64     `json:"generation"`
	Labels     []string   `json:"labels,omitempty"`    // of the session before the turn, and of what was said
	Used       *Used      `json:"used,omitempty"`      // by the session before the turn
	Delegated  *Delegated `json:"delegated,omitempty"` // of a turn that works for another one
	Program    string     `json:"program,omitempty"`   // the session of an agent of kind cli as its program names it, before the turn
	Folder     string     `json:"folder,omitempty"`    // of the host that a conversation with such an agent is about
}

// Said is one message of a turn.
type Said struct {
	Event string         `json:"event"`
	By    string         `json:"by,omitempty"` // the sender as people see it
	Text  string         `json:"text"`
	At    time.Time      `json:"at,omitzero"`
	Files []message.File `json:"files,omitempty"` // that came with it
}

// ModelStep is one whole answer of a model.
type ModelStep = model.Response

// ToolStart says that a call is about to run. Without a ToolResult after it, nobody knows how far it came.
type ToolStart struct {
	Call    string          `json:"call"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty"`
	Verdict string          `json:"verdict"`
	Where   string          `json:"where,omitempty"`
	Reasons []string        `json:"reasons,omitempty"`
}

// ToolResult is what came of a call, whether it ran or was refused.
type ToolResult struct {
	ToolStart
	Result      tool.Result `json:"result"`
	Interrupted bool        `json:"interrupted,omitempty"`
}

// interruptedText tells a model that a call's fate is unknown.
const interruptedText = "The host was restarted while this call ran. It may or may not have taken effect, and it was not run again. Check before you repeat it."

// notRunText tells a model that a call was never started.
const notRunText = "The turn ended before this call was started. It had no effect."

func encode(v any) json.RawMessage {
	b, err := jsonform.Marshal(v)
	if err != nil { // only types of this package come here
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

// turnSteps are the steps of one turn, decoded.
type turnSteps struct {
	user    UserStep
	entries []entry
	tasks   []task.Use
	next    int // sequence number of the next step
	// condensed is what stands for the first entries; the zero value where all are shown.
	condensed CondensedStep
}

// entry is a model's answer with what came of its calls.
type entry struct {
	answer  model.Response
	started map[string]ToolStart
	results map[string]ToolResult
}

// tried counts the calls of an answer that were decided about, whatever came of them.
func (e *entry) tried() int {
	n := len(e.results)
	for id := range e.started {
		if _, done := e.results[id]; !done {
			n++
		}
	}
	return n
}

// decodeTurn reads the steps of one turn back.
func decodeTurn(steps []turnlog.Step) (turnSteps, error) {
	var t turnSteps
	for _, s := range steps {
		if err := t.add(s); err != nil {
			return t, fmt.Errorf("decode step %d of turn %s: %w", s.Seq, s.Turn, err)
		}
	}
	return t, nil
}

// take is add for a record that reads back as it is, and reports whether it was one. An answer with calls is none: what a model wrote as
// their arguments may be anything. Nor is what was delegated, which its turn goes on to change.
func (t *turnSteps) take(record any) bool {
	switch r := record.(type) {
	case UserStep:
		if r.Delegated != nil {
			return false
		}
		t.user = r
	case ModelStep:
		if len(r.Message.Calls) > 0 {
			return false
		}
		t.answered(r)
	default:
		return false
	}
	t.next++
	return true
}

func (t *turnSteps) answered(r model.Response) {
	t.entries = append(t.entries, entry{answer: r, started: map[string]ToolStart{}, results: map[string]ToolResult{}})
}

func (t *turnSteps) add(s turnlog.Step) error {
	t.next = s.Seq + 1
	switch s.Kind {
	case turnlog.StepUser:
		return json.Unmarshal(s.Data, &t.user)
	case turnlog.StepTask:
		var u TaskStep
		err := json.Unmarshal(s.Data, &u)
		t.tasks = append(t.tasks, u)
		return err
	case turnlog.StepModel:
		var answer model.Response
		if err := json.Unmarshal(s.Data, &answer); err != nil {
			return err
		}
		t.answered(answer)
		return nil
	}
	if s.Kind == turnlog.StepCondensed {
		return t.condense(s.Data)
	}
	if len(t.entries) == 0 {
		return fmt.Errorf("%s comes before any answer", s.Kind)
	}
	e := &t.entries[len(t.entries)-1]
	switch s.Kind {
	case turnlog.StepToolStart:
		var v ToolStart
		if err := json.Unmarshal(s.Data, &v); err != nil {
			return err
		}
		e.started[v.Call] = v
	case turnlog.StepToolResult:
		var v ToolResult
		if err := json.Unmarshal(s.Data, &v); err != nil {
			return err
		}
		e.results[v.Call] = v
	default:
		return fmt.Errorf("unknown kind %q", s.Kind)
	}
	return nil
}

func (t *turnSteps) condense(data json.RawMessage) error {
	c := CondensedStep{}
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	if c.Entries <= t.condensed.Entries || c.Entries > len(t.entries) || c.Lost < 0 || c.Lost > c.Entries {
		return fmt.Errorf("a summary of %d steps stands after %d", c.Entries, len(t.entries))
	}
	t.condensed = c
	return nil
}

// messages gives the turn as a model sees it. Calls without a result get one that says why, so that the
// transcript is always one that a provider accepts.
func (t *turnSteps) messages() []model.Message {
	said := model.Message{Role: model.User, Text: t.user.text() + t.condensed.text(), Images: t.user.images()}
	return append([]model.Message{said}, entryMessages(t.entries[t.condensed.Entries:])...)
}

// entryMessages are answers, each with the results of its calls.
func entryMessages(entries []entry) (ms []model.Message) {
	for _, e := range entries {
		ms = append(ms, e.answer.Message)
		if len(e.answer.Message.Calls) == 0 {
			continue
		}
		reply := model.Message{Role: model.User}
		for _, c := range e.answer.Message.Calls {
			reply.Results = append(reply.Results, e.result(c.ID))
		}
		ms = append(ms, reply)
	}
	return ms
}

func (e *entry) result(call string) model.ToolResult {
	if r, ok := e.results[call]; ok {
		return model.ToolResult{ID: call, Text: r.Result.Text, IsError: r.Result.IsError, Images: resultImages(r.Result)}
	}
	if _, ok := e.started[call]; ok {
		return model.ToolResult{ID: call, Text: interruptedText, IsError: true}
	}
	return model.ToolResult{ID: call, Text: notRunText, IsError: true}
}

// newUserStep records the messages that a turn answers.
func newUserStep(rows []mailbox.InboxRow, files map[int64][]message.File) UserStep {
	var u UserStep
	for _, r := range rows {
		m := r.Message
		u.Group = m.Conversation.Kind != message.DM
		u.Said = append(u.Said, Said{Event: m.EventID, By: by(m), Text: told(m), At: m.ReceivedAt, Files: files[r.ID]})
	}
	return u
}

// events are the ids of what was said.
func (u UserStep) events() []string {
	var ids []string
	for _, s := range u.Said {
		ids = append(ids, s.Event)
	}
	return ids
}

// text joins what was said. In a group each message carries its sender, so that a model can tell people apart. Only a message
// and the host's own notes begin at the margin there: further lines of a message are indented, whatever they look like.
func (u UserStep) text() string {
	var text strings.Builder
	text.WriteString(recalledText(u.Recalled))
	for _, n := range u.Notes {
		text.WriteString(n + "\n")
	}
	for i, s := range u.Said {
		if i > 0 {
			text.WriteByte('\n')
		}
		if u.Group {
			fmt.Fprintf(&text, "<%s> %s", s.By, indented.Replace(s.whole()))
			continue
		}
		text.WriteString(s.whole())
	}
	return text.String()
}

// indented replaces everything that can be read as the end of a line (Unicode Standard, section 5.8).
var indented = strings.NewReplacer("\r\n", margin, "\r", margin, "\n", margin, "\v", margin, "\f", margin,
	"\u0085", margin, "\u2028", margin, "\u2029", margin)

const margin = "\n  "

// speaker names a sender in a group: the name that people see, which he can choose to be another's, and his id, which he cannot.
func speaker(s message.Sender) string {
	name, id := word(s.Name), word(s.ID)
	if name == "" || strings.EqualFold(name, id) {
		return id
	}
	return name + " " + id
}

// word is text without what could be taken for the frame around it, or does not show.
func word(text string) string {
	out := make([]rune, 0, len(text))
	for _, c := range text {
		if unicode.IsGraphic(c) && !unicode.IsSpace(c) && c != '<' && c != '>' && len(out) < 64 {
			out = append(out, c)
		}
	}
	return string(out)
}
