package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Runner runs calls that Admit let through, and turns any outcome into a Result for the model.
type Runner struct {
	// Deadline bounds one call. Default: 1 h
	Deadline time.Duration
	// MaxText bounds a result's text, in bytes. Default: MaxText
	MaxText int
	Log     *slog.Logger
}

// Pager is implemented by tools whose results may be too long for a model. Rest is a sentence that tells the model how
// to read the rest.
type Pager interface{ Rest() string }

// defaultRest is for other tools.
const defaultRest = "Ask for less at a time to read it."

// Run runs a call with the arguments of the decision. A failure of the host is a Result as well, with the cause in the
// log: the turn goes on.
func (r *Runner) Run(ctx context.Context, v Decision, call Call) Result {
	if v.Action != Run || v.tool == nil {
		return r.refused(v)
	}
	if err := rightPlace(v, call); err != nil {
		return r.failed(v, err)
	}
	call.Name, call.Args = v.spec.Name, v.Args
	if call.Progress == nil {
		call.Progress = func([]byte) {}
	}
	if call.Say == nil {
		call.Say = func(string) {}
	}
	ctx, cancel := context.WithTimeout(ctx, r.deadline())
	defer cancel()
	result, err := run(ctx, v.tool, call)
	if err != nil {
		failed := r.failed(v, err) // in the host's words, but the call may have read before it failed
		failed.Labels = result.Labels
		return v.labelled(failed)
	}
	result = v.labelled(result)
	result.Text = boundText(result.Text, cmp.Or(call.MaxText, r.maxText()), rest(v.tool))
	return result
}

// Tool is the name of the call's tool.
func (v Decision) Tool() string { return v.spec.Name }

// MayWrite reports whether the call may change files of the workspace.
func (v Decision) MayWrite() bool { return v.spec.Machine && v.spec.Effect != Read }

// OnMachine reports whether the call needs a machine.
func (v Decision) OnMachine() bool { return v.spec.Machine }

// rightPlace makes sure that a call for a sandbox does not get the host, nor the other way round: the last check before
// a mistake in the wiring becomes an escape.
func rightPlace(v Decision, call Call) error {
	if !v.spec.Machine {
		return nil
	}
	if call.Machine == nil {
		return errors.New("the call has no machine to act on")
	}
	if onHost := call.Machine.Name() == Host; onHost == v.Sandbox {
		return fmt.Errorf("the call must run on %s, not on %s", v.Where, call.Machine.Name())
	}
	return nil
}

// refused is the result of a call that must not run.
func (r *Runner) refused(v Decision) Result {
	text := v.Refusal
	if text == "" {
		text = "this call was not approved"
	}
	return Result{Text: boundText("refused: "+text, r.maxText(), defaultRest), IsError: true}
}

// failed hides causes from the model that could reveal details of the host. An unavailable sandbox comes first, as its
// error says what to do, even if a deadline revealed it.
func (r *Runner) failed(v Decision, err error) Result {
	if r.Log != nil {
		r.Log.Error("tool_failed", "tool", v.spec.Name, "error", err)
	}
	text := fmt.Sprintf("%s failed inside the host; trying again may help", v.spec.Name)
	switch {
	case errors.Is(err, machine.ErrUnavailable):
		text = boundText(err.Error(), r.maxText(), defaultRest)
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("%s took too long and was ended", v.spec.Name)
	case errors.Is(err, context.Canceled):
		text = fmt.Sprintf("%s was canceled", v.spec.Name)
	}
	return Result{Text: text, IsError: true}
}

// run turns a tool's panic into an error.
func run(ctx context.Context, t Tool, call Call) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return t.Run(ctx, call)
}

func rest(t Tool) string {
	if p, ok := t.(Pager); ok {
		return p.Rest()
	}
	return defaultRest
}

func (r *Runner) deadline() time.Duration {
	if r.Deadline <= 0 {
		return time.Hour
	}
	return r.Deadline
}

func (r *Runner) maxText() int {
	if r.MaxText <= 0 {
		return MaxText
	}
	return r.MaxText
}
