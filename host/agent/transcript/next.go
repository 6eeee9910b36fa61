package transcript

import (
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/model"
)

// Now holds the facts outside a turn's steps that decide what comes next.
type Now struct {
	Limits Limits
	// Elsewhere is usage that counts towards the limits but is in no step: what the parent had spent, and the calls of programs.
	Elsewhere Spent
	// End is why nothing more may begin: a person, the clock or the kill switch ended the turn. It is nil otherwise.
	End error
	// Running are the ids of the calls that run in this process.
	Running []string
	// Repeats is true if the next answer repeats a known text and needs no model. It is given even beyond the limits.
	Repeats bool
	// Fill is the use of the model's window; with nil, nothing is condensed.
	Fill *Fill
}

// Limits bound a turn.
type Limits struct{ Steps, ToolCalls, Tokens int }

// Spent counts what is limited.
type Spent struct{ ToolCalls, Tokens int }

// Plus returns the sum of both.
func (s Spent) Plus(other Spent) Spent {
	return Spent{ToolCalls: s.ToolCalls + other.ToolCalls, Tokens: s.Tokens + other.Tokens}
}

// Fill is the use of the model's context window, in tokens.
type Fill struct {
	Window    int
	Threshold int // that may be used before something is condensed; 0 means no limit
	Own       int // used by the turn, with the agent's instructions
	Before    int // used by earlier turns
	Keep      int // size of the last answers that stay whole, unless they take over half of the threshold
	// Refused is true if the model has rejected the turn as too long.
	Refused bool
	// Unsummarised is true if an earlier summary failed.
	Unsummarised bool
}

// must reports whether the model cannot be called without condensing.
func (f *Fill) must() bool { return f.Refused || f.Own > f.Window }

// Action is the next action of a turn: Ask, Run, Interrupt, Wait, Condense, Finish or Fail.
type Action interface{ action() }

type (
	// Ask asks the model for the next answer.
	Ask struct{}
	// Run carries out calls that were never begun, in order. The limits leave room for them.
	Run struct{ Calls []model.ToolCall }
	// Interrupt gives a result to a call that an earlier process began. The call is never repeated automatically.
	Interrupt struct{ Start ToolStart }
	// Wait waits for a running call.
	Wait struct{}
	// Condense replaces the first answers, up to Upto, by a summary. If Must is set, they are dropped even without one.
	Condense struct {
		Upto int
		Must bool
	}
	// Finish ends the turn with an answer.
	Finish struct{ Text string }
	// Fail ends the turn without an answer. Err is Now.End or an Exceeded.
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

// Next returns the next action of a turn. It is the only function that decides that.
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

// MayCall returns how many more calls may be made, at least 1, or an error if none may.
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

// within checks the limits of calls and answers.
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

// fresh returns the calls that were never begun. Of several with the same id only the first is returned.
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

// condensable returns how many answers to summarise. A summary is not worth its cost for a few words, nor after one has failed, unless
// the request is too long otherwise.
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

// older returns how many answers need not be kept whole. The last one always is.
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

// roughly estimates the tokens of answers with the results of their calls.
func roughly(answers []Answer) (n int) {
	for _, m := range Messages(answers) {
		n += model.RoughMessage(m)
	}
	return n
}
