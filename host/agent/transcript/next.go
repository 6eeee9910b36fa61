package transcript

import (
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/model"
)

// Now is what the steps of a turn do not say about what comes next.
type Now struct {
	Limits Limits
	// Elsewhere counts for the limits and is in no step of the turn: what its parent had spent, what the calls of programs have.
	Elsewhere Spent
	// End is why nothing more may begin: a person, the clock or the kill switch ended the turn. It is nil for a turn that goes on.
	End error
	// Running are the ids of calls that this process has begun and that run.
	Running []string
	// Repeats is true where the next answer repeats what is known, and no model makes it. It is given whatever the limits say.
	Repeats bool
	// Fill is how full the model's window is; nil condenses nothing.
	Fill *Fill
}

// Limits bound a turn.
type Limits struct{ Steps, ToolCalls, Tokens int }

// Spent counts what has limits.
type Spent struct{ ToolCalls, Tokens int }

// Plus is the sum of both.
func (s Spent) Plus(other Spent) Spent {
	return Spent{ToolCalls: s.ToolCalls + other.ToolCalls, Tokens: s.Tokens + other.Tokens}
}

// Fill is how full the window of the model is, in tokens.
type Fill struct {
	Window    int
	Threshold int // that may be taken before something gives way; 0 is any number
	Own       int // taken by the turn, with the agent's instructions
	Before    int // taken by the turns before
	Keep      int // of the last answers, those that stay whole if they take no more than half of the threshold
	// Refused is true where the model has found the turn too long.
	Refused bool
	// Unsummarised is true where no summary could be had before.
	Unsummarised bool
}

// must reports whether something has to give way for the model to be asked at all.
func (f *Fill) must() bool { return f.Refused || f.Own > f.Window }

// Action is what comes next in a turn: Ask, Run, Interrupt, Wait, Condense, Finish or Fail.
type Action interface{ action() }

type (
	// Ask asks the model for the next answer.
	Ask struct{}
	// Run brings calls to a result. They are in their order, were never begun, and are no more than the limits leave room for.
	Run struct{ Calls []model.ToolCall }
	// Interrupt gives a call its result that an earlier process had begun. It is never run again by itself.
	Interrupt struct{ Start ToolStart }
	// Wait waits for a call that runs.
	Wait struct{}
	// Condense puts a summary in the place of the first answers, up to Upto. Where it must, they go without one as well.
	Condense struct {
		Upto int
		Must bool
	}
	// Finish ends the turn with an answer.
	Finish struct{ Text string }
	// Fail ends the turn without one: by Now.End, or by an Exceeded.
	Fail struct{ Err error }
)

func (Ask) action()       {}
func (Run) action()       {}
func (Interrupt) action() {}
func (Wait) action()      {}
func (Condense) action()  {}
func (Finish) action()    {}
func (Fail) action()      {}

// Exceeded is the error of a turn that has reached a limit.
type Exceeded struct {
	Limit int
	Of    string
}

// Error implements error.
func (e *Exceeded) Error() string { return fmt.Sprintf("the turn used its %d %s", e.Limit, e.Of) }

// Next is the one place that decides what comes next in a turn.
func Next(s *State, now Now) Action {
	if a := s.last(); a != nil {
		if len(a.Message.Calls) == 0 {
			return Finish{a.Message.Text}
		}
		if c := a.interrupted(now.Running); c != nil {
			return Interrupt{*c.Start}
		}
		if fresh := a.fresh(); len(fresh) > 0 {
			room, err := s.MayCall(now)
			if err != nil {
				return Fail{err}
			}
			return Run{fresh[:min(room, len(fresh))]}
		}
		if len(now.Running) > 0 {
			return Wait{}
		}
	}
	if now.Repeats {
		return Ask{}
	}
	if _, err := s.within(now); err != nil {
		return Fail{err}
	}
	if upto := s.condensable(now.Fill); upto > s.Condensed.Entries {
		return Condense{Upto: upto, Must: now.Fill.must()}
	}
	return Ask{}
}

// MayCall returns how many more calls may be made, at least 1, or why none may.
func (s *State) MayCall(now Now) (room int, err error) {
	spent, err := s.within(now)
	if err != nil {
		return 0, err
	}
	if room = now.Limits.ToolCalls - spent.ToolCalls; room <= 0 {
		return 0, &Exceeded{now.Limits.ToolCalls, "tool calls"}
	}
	return room, nil
}

// within checks what bounds calls and answers alike.
func (s *State) within(now Now) (Spent, error) {
	spent := s.Spent().Plus(now.Elsewhere)
	switch {
	case now.End != nil:
		return spent, now.End
	case len(s.Answers) >= now.Limits.Steps:
		return spent, &Exceeded{now.Limits.Steps, "steps"}
	case spent.Tokens >= now.Limits.Tokens:
		return spent, &Exceeded{now.Limits.Tokens, "tokens"}
	}
	return spent, nil
}

// interrupted returns a call that was begun, has no result and does not run in this process, or nil.
func (a *Answer) interrupted(running []string) *Call {
	for i, c := range a.Calls {
		if id := a.Message.Calls[i].ID; c.Start != nil && c.Result == nil && !slices.Contains(running, id) {
			return &a.Calls[i]
		}
	}
	return nil
}

// fresh are the calls that were never begun. Of several with one id the first is made, for all of them.
func (a *Answer) fresh() []model.ToolCall {
	var out []model.ToolCall
	for _, c := range a.Message.Calls {
		known := a.find(c.ID, func(c Call) bool { return c.Start != nil || c.Result != nil })
		if known == (Call{}) && !slices.ContainsFunc(out, func(o model.ToolCall) bool { return o.ID == c.ID }) {
			out = append(out, c)
		}
	}
	return out
}

// condensable returns how many answers a summary is to stand for. It is not made for a few words, nor again after one could not be had,
// unless something must give way.
func (s *State) condensable(f *Fill) int {
	none := s.Condensed.Entries
	if f == nil || f.Threshold == 0 || !f.must() && f.Own+f.Before <= f.Threshold {
		return none
	}
	upto := s.older(f)
	if !f.must() && (f.Unsummarised || roughly(s.Answers[none:upto]) < f.Threshold/8) {
		return none
	}
	return upto
}

// older returns how many answers are not to be kept whole. The last one is in any case.
func (s *State) older(f *Fill) int {
	first, size := len(s.Answers), 0
	for first > s.Condensed.Entries && len(s.Answers)-first < max(f.Keep, 1) {
		size += roughly(s.Answers[first-1 : first])
		if size > f.Threshold/2 && first < len(s.Answers) {
			break
		}
		first--
	}
	return first
}

// roughly is how many tokens answers take, with the results of their calls.
func roughly(answers []Answer) (n int) {
	for _, m := range Messages(answers) {
		n += model.RoughMessage(m)
	}
	return n
}
