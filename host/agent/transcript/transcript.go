// Package transcript computes the state of a turn from its steps: the messages, the model's answers, the results of calls, and what
// comes next.
//
// Start with State.Apply, which takes one step, and Next, which decides what comes after the steps. record.go defines the JSON records
// of steps, messages.go what a model is shown of them, describe.go what people are shown. The package reads no clock, starts nothing
// and stores nothing: package agent carries out what Next returns, and package turnlog defines the rows.
package transcript

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
)

// State is the state of a turn. It depends only on the turn's steps; the zero value is a turn without steps. Only Apply and Add may
// change it.
type State struct {
	User    UserStep
	Answers []Answer
	Tasks   []task.Use
	// Condensed replaces the first answers in what the model is shown; zero replaces none.
	Condensed CondensedStep
	// Children are the completed delegations.
	Children []Child

	next int // sequence number of the next step
}

// Answer is a model's answer with the results of its calls.
type Answer struct {
	model.Response
	Calls []Call // of Message.Calls, in the same order
}

// Call is one call of an answer: not begun, begun, or with a result. A refused call has only a result.
type Call struct {
	Start  *ToolStart
	Result *ToolResult
}

// Read computes the state from a turn's steps.
func Read(steps []turnlog.Step) (State, error) {
	var s State
	for _, step := range steps {
		if err := s.Apply(step); err != nil {
			return s, fmt.Errorf("decode step %d of turn %s: %w", step.Seq, step.Turn, err)
		}
	}
	return s, nil
}

// Add turns a record into the turn's next step, and applies it. It panics if the record is not of this package or does not fit the
// state, which would be a bug.
func (s *State) Add(turn string, at time.Time, record any) turnlog.Step {
	step := turnlog.Step{Turn: turn, Seq: s.next, Kind: kindOf(record), Data: Encode(record), At: at}
	if s.take(record) {
		return step
	}
	if err := s.Apply(step); err != nil {
		panic(err)
	}
	return step
}

func kindOf(record any) turnlog.StepKind {
	switch record.(type) {
	case UserStep:
		return turnlog.StepUser
	case ModelStep:
		return turnlog.StepModel
	case ToolStart:
		return turnlog.StepToolStart
	case ToolResult:
		return turnlog.StepToolResult
	case TaskStep:
		return turnlog.StepTask
	case CondensedStep:
		return turnlog.StepCondensed
	}
	panic(fmt.Sprintf("a step of a %T", record))
}

// take applies a record without encoding it, if it would decode to itself, and reports whether it did. An answer with calls does not:
// the model may have written any bytes as arguments. A delegated task does not either, because its turn changes the record later.
func (s *State) take(record any) bool {
	switch r := record.(type) {
	case UserStep:
		if r.Delegated != nil || s.next > 0 {
			return false
		}
		s.User = r
	case ModelStep:
		if len(r.Message.Calls) > 0 || s.next == 0 {
			return false
		}
		s.Answers = append(s.Answers, Answer{Response: r})
	default:
		return false
	}
	s.next++
	return true
}

// Apply applies the next step. A step that is not allowed here is an error and changes nothing.
func (s *State) Apply(step turnlog.Step) error {
	switch {
	case step.Seq != s.next:
		return fmt.Errorf("out of order: step %d is due", s.next)
	case (step.Kind == turnlog.StepUser) != (s.next == 0):
		return fmt.Errorf("a step of kind %q cannot be number %d", step.Kind, s.next)
	}
	if err := s.apply(step); err != nil {
		return err
	}
	s.next++
	return nil
}

func (s *State) apply(step turnlog.Step) error {
	switch step.Kind {
	case turnlog.StepUser:
		return decode(step, func(u UserStep) error { s.User = u; return nil })
	case turnlog.StepModel:
		return decode(step, s.answered)
	case turnlog.StepToolStart:
		return decode(step, s.started)
	case turnlog.StepToolResult:
		return decode(step, s.returned)
	case turnlog.StepTask:
		return decode(step, func(u TaskStep) error { s.Tasks = append(s.Tasks, u); return nil })
	case turnlog.StepCondensed:
		return decode(step, s.condensed)
	}
	return fmt.Errorf("unknown kind %q", step.Kind)
}

// decode decodes the record of a step and passes it on.
func decode[R any](step turnlog.Step, to func(R) error) error {
	var record R
	if err := json.Unmarshal(step.Data, &record); err != nil {
		return err
	}
	return to(record)
}

func (s *State) answered(r ModelStep) error {
	a := Answer{Response: r}
	if n := len(r.Message.Calls); n > 0 {
		a.Calls = make([]Call, n)
	}
	s.Answers = append(s.Answers, a)
	return nil
}

func (s *State) started(start ToolStart) error {
	c := s.open(start.Call, func(c Call) bool { return c.Start == nil && c.Result == nil })
	if c == nil {
		return fmt.Errorf("there is no call %q to begin", start.Call)
	}
	c.Start = &start
	return nil
}

func (s *State) returned(r ToolResult) error {
	c := s.open(r.Call, func(c Call) bool { return c.Result == nil })
	if c == nil {
		return fmt.Errorf("there is no call %q without a result", r.Call)
	}
	c.Result = &r
	if r.Tool != DelegateTool || len(r.Result.Record) == 0 {
		return nil
	}
	var child Child
	if json.Unmarshal(r.Result.Record, &child) == nil { // without a record its usage is unknown
		s.Children = append(s.Children, child)
	}
	return nil
}

// open returns the first call of the last answer that has the id and for which is returns true. Ids are the model's: several calls may
// share one.
func (s *State) open(id string, is func(Call) bool) *Call {
	a := s.last()
	if a == nil {
		return nil
	}
	for i, c := range a.Message.Calls {
		if c.ID == id && is(a.Calls[i]) {
			return &a.Calls[i]
		}
	}
	return nil
}

func (s *State) condensed(c CondensedStep) error {
	if c.Entries <= s.Condensed.Entries || c.Entries > len(s.Answers) || c.Lost < 0 || c.Lost > c.Entries {
		return fmt.Errorf("a summary of %d steps follows %d steps", c.Entries, len(s.Answers))
	}
	s.Condensed = c
	return nil
}

// Encode encodes a record, or a part of one, as JSON.
func Encode(v any) json.RawMessage {
	b, err := jsonform.Marshal(v)
	if err != nil { // impossible: all types are the host's own
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

// Steps returns the number of steps, which is the sequence number of the next one.
func (s *State) Steps() int { return s.next }

func (s *State) last() *Answer {
	if len(s.Answers) == 0 {
		return nil
	}
	return &s.Answers[len(s.Answers)-1]
}

// Result returns the result of the calls with an id, or nil.
func (a *Answer) Result(id string) *ToolResult {
	return a.find(id, func(c Call) bool { return c.Result != nil }).Result
}

// Start returns the start of a call with an id, or nil.
func (a *Answer) Start(id string) *ToolStart {
	return a.find(id, func(c Call) bool { return c.Start != nil }).Start
}

func (a *Answer) find(id string, is func(Call) bool) Call {
	for i, c := range a.Message.Calls {
		if c.ID == id && is(a.Calls[i]) {
			return a.Calls[i]
		}
	}
	return Call{}
}

// calls yields the calls of the turn that were decided about.
func (s *State) calls(yield func(Call) bool) {
	for _, a := range s.Answers {
		for _, c := range a.Calls {
			if (c.Start != nil || c.Result != nil) && !yield(c) {
				return
			}
		}
	}
}

// results yields all results of the turn.
func (s *State) results(yield func(*ToolResult) bool) {
	for c := range s.calls {
		if c.Result != nil && !yield(c.Result) {
			return
		}
	}
}

// Made returns the number of the turn's own calls that were decided about.
func (s *State) Made() (n int) {
	for range s.calls {
		n++
	}
	return n
}

// Delegations returns the number of the turn's delegations, including the current one.
func (s *State) Delegations() (n int) {
	for c := range s.calls {
		if c.Start != nil && c.Start.Tool == DelegateTool {
			n++
		}
	}
	return n
}

// Spent returns what counts towards the turn's limits, including the share of its children.
func (s *State) Spent() Spent {
	sum := Spent{ToolCalls: s.Made()}
	for _, a := range s.Answers {
		sum.Tokens += max(a.Usage.Input, 0) + max(a.Usage.Output, 0)
	}
	for _, c := range s.Children {
		sum.Tokens += max(c.Tokens, 0)
		sum.ToolCalls += max(c.ToolCalls, 0)
	}
	return sum
}

// Used returns the usage of the turn, including its children and the host's tasks.
func (s *State) Used() Used {
	var sum Used
	for _, a := range s.Answers {
		sum.Add(a.Usage)
	}
	for _, u := range s.Tasks {
		sum.Add(u.Usage)
	}
	for _, c := range s.Children {
		sum.Join(c.Used)
	}
	return sum
}

// Labels returns the labels of the turn and of its session before it.
func (s *State) Labels() []string {
	labels := s.User.Labels
	for r := range s.results {
		labels = tool.JoinLabels(labels, r.Result.Labels)
	}
	return labels
}

// Attachments returns the files that the turn's tools attached to its answer, each file once.
func (s *State) Attachments() []message.Attachment {
	var out []message.Attachment
	for r := range s.results {
		for _, a := range r.Result.Attachments {
			if len(out) < message.MaxAttachments && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// Text returns the text of the last answer.
func (s *State) Text() string {
	if a := s.last(); a != nil {
		return a.Message.Text
	}
	return ""
}
