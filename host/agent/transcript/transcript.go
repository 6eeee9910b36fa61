// Package transcript is a turn as its steps tell it: what was said, what the model answered, what came of the calls, and what comes next.
//
// Start with State.Apply, which takes one step, and Next, the one place that decides what comes after the steps. record.go has what steps
// hold as JSON, messages.go what a model is shown of them, describe.go what people are. The package reads no clock, starts nothing and
// stores nothing: package agent carries out what Next says, and turnlog has the rows.
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

// State is where a turn stands. It is made of the turn's steps and of nothing else; the zero value is a turn without steps. Read it, and
// change it by Apply and Add alone.
type State struct {
	User    UserStep
	Answers []Answer
	Tasks   []task.Use
	// Condensed stands for the first answers in what the model is shown; the zero value stands for none.
	Condensed CondensedStep
	// Children are the delegations that have come back.
	Children []Child

	next int // sequence number of the next step
}

// Answer is a model's answer with what came of its calls.
type Answer struct {
	model.Response
	Calls []Call // those of Message.Calls, in their order
}

// Call is one call of an answer: not begun, or begun, or with a result. One that was refused has a result alone.
type Call struct {
	Start  *ToolStart
	Result *ToolResult
}

// Read makes the state of a turn's steps, from the first one on.
func Read(steps []turnlog.Step) (State, error) {
	var s State
	for _, step := range steps {
		if err := s.Apply(step); err != nil {
			return s, fmt.Errorf("decode step %d of turn %s: %w", step.Seq, step.Turn, err)
		}
	}
	return s, nil
}

// Add makes a step of a record, as the turn's next one, and applies it. It panics for a record that is none of this package, or that does
// not fit the state: both are bugs.
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

// take is Apply for a record that reads back as it is, and reports whether it was one. An answer with calls is none: what a model wrote as
// their arguments may be anything. Nor is a delegated task, whose record its turn goes on to change.
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

// Apply takes the next step. A step that cannot come here is an error, and changes nothing.
func (s *State) Apply(step turnlog.Step) error {
	switch {
	case step.Seq != s.next:
		return fmt.Errorf("it stands where step %d is due", s.next)
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

// decode reads the record of a step and hands it on.
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
		return fmt.Errorf("there is no call %q that could have a result", r.Call)
	}
	c.Result = &r
	if r.Tool != DelegateTool || len(r.Result.Record) == 0 {
		return nil
	}
	var child Child
	if json.Unmarshal(r.Result.Record, &child) == nil { // else nobody knows what it has used
		s.Children = append(s.Children, child)
	}
	return nil
}

// open returns the first call of the last answer that has an id and that is true of. Ids are the model's: it may have given two calls the
// same one.
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
		return fmt.Errorf("a summary of %d steps stands after %d", c.Entries, len(s.Answers))
	}
	s.Condensed = c
	return nil
}

// Encode is a record, or a part of one, as JSON.
func Encode(v any) json.RawMessage {
	b, err := jsonform.Marshal(v)
	if err != nil { // only types of the host come here
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

// Steps is how many steps there are: the sequence number of the next one.
func (s *State) Steps() int { return s.next }

func (s *State) last() *Answer {
	if len(s.Answers) == 0 {
		return nil
	}
	return &s.Answers[len(s.Answers)-1]
}

// Result returns what came of the calls with an id, or nil.
func (a *Answer) Result(id string) *ToolResult {
	return a.find(id, func(c Call) bool { return c.Result != nil }).Result
}

// Start returns the begin of a call with an id, or nil.
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

// calls are all of the turn's that were decided about, whatever came of them.
func (s *State) calls(yield func(Call) bool) {
	for _, a := range s.Answers {
		for _, c := range a.Calls {
			if (c.Start != nil || c.Result != nil) && !yield(c) {
				return
			}
		}
	}
}

// results are all of the turn's.
func (s *State) results(yield func(*ToolResult) bool) {
	for c := range s.calls {
		if c.Result != nil && !yield(c.Result) {
			return
		}
	}
}

// Made counts the calls of the turn itself that were decided about, whatever came of them.
func (s *State) Made() (n int) {
	for range s.calls {
		n++
	}
	return n
}

// Delegations counts the turn's delegations, the one that is under way included.
func (s *State) Delegations() (n int) {
	for c := range s.calls {
		if c.Start != nil && c.Start.Tool == DelegateTool {
			n++
		}
	}
	return n
}

// Spent is what counts for the limits of the turn, the share of its children included.
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

// Used is what the turn has used, with its children and the tasks of the host.
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

// Labels are what the turn has touched, and what its session had before it.
func (s *State) Labels() []string {
	labels := s.User.Labels
	for r := range s.results {
		labels = tool.JoinLabels(labels, r.Result.Labels)
	}
	return labels
}

// Attachments are what the tools of the turn have attached to its answer, each file once.
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

// Text is the text of the last answer.
func (s *State) Text() string {
	if a := s.last(); a != nil {
		return a.Message.Text
	}
	return ""
}
