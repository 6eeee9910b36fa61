package compare

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
)

// asker is one of the workers of a Run.
type asker struct {
	module *policy.Module
	exact  bool
	tally  *Tally
}

func (a *asker) run(ctx context.Context, batches <-chan []Decision) {
	for batch := range batches {
		for k := range batch {
			if ctx.Err() != nil {
				break // a decision fails when its context has ended, which says nothing about the module
			}
			a.ask(ctx, &batch[k])
		}
	}
}

// ask asks one decision again.
func (a *asker) ask(ctx context.Context, d *Decision) {
	if why := a.skip(d); why != "" {
		a.tally.Skip(why)
		return
	}
	got, err := a.module.Replay(ctx, d.Record)
	if err == nil && byChance(class(got.Is.Error)) {
		got, err = a.module.Replay(ctx, d.Record) // a busy machine can be slow once
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.tally.Skip("its row cannot be read")
	case got.Lacks != "":
		a.tally.Skip("the log does not hold its whole " + got.Lacks)
	case a.exact:
		change, detail := a.drift(&got)
		a.tally.Add(d, &got.Is, change, detail)
	default:
		a.tally.Add(d, &got.Is, changeOf(&got), "")
	}
}

// skip returns why a decision cannot be compared, or "".
func (a *asker) skip(d *Decision) string {
	switch {
	case !a.module.Decides(d.Kind):
		return "it is about a " + d.Kind + ", which the policy does not decide"
	case !a.exact:
		return ""
	case d.Digest != a.module.Digest():
		return "another module, data or limits made it"
	case byChance(class(d.Error)):
		return "it failed for want of time, which does not repeat"
	}
	return ""
}

// class returns the class of a recorded failure, "" for none.
func class(failure string) policy.Class {
	c, _, _ := strings.Cut(failure, ":")
	return policy.Class(c)
}

// byChance reports whether a failure depends on more than the decision.
func byChance(c policy.Class) bool {
	return c == policy.ClassDeadline || c == policy.ClassBusy || c == policy.ClassLoad
}

// changeOf compares what a candidate would do with what was done. Another reason changes nothing: reasons are for people.
func changeOf(got *policy.Replayed) Kind {
	switch was, is := &got.Was, &got.Is; {
	case was.Answer != is.Answer || class(was.Error) != class(is.Error):
		return KindAnswer
	case was.Reason != is.Reason:
		return KindReason
	}
	return KindNone
}

// drift compares a decision with its repetition. The first host call that differs comes before the answer, because it is the
// cause.
func (a *asker) drift(got *policy.Replayed) (change Kind, detail string) {
	was, is := &got.Was, &got.Is
	switch {
	case got.Call >= 0:
		return KindCall, fmt.Sprintf("call %d: %s, was %s", got.Call+1, callAt(is.Calls, got.Call), callAt(was.Calls, got.Call))
	case !sameAnswer(got):
		return KindAnswer, ""
	case got.Fuel:
		return KindNone, ""
	case a.module.Isolation() == policy.IsolationWarm:
		return KindWarm, fmt.Sprintf("fuel %+d", is.Fuel-was.Fuel)
	}
	return KindFuel, fmt.Sprintf("fuel %+d", is.Fuel-was.Fuel)
}

// sameAnswer compares only the words of a row of an older flynn, which recorded neither the raw answer nor the file.
func sameAnswer(got *policy.Replayed) bool {
	was, is := &got.Was, &got.Is
	return got.Answer || was.File == "" && was.Answer == is.Answer && was.Reason == is.Reason && was.Error == is.Error
}

func callAt(calls []policy.HostCall, n int) string {
	if n >= len(calls) {
		return "none"
	}
	return calls[n].String()
}
