package compare

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
)

// asker is one worker: it asks, and counts in a tally of its own.
type asker struct {
	module *policy.Module
	exact  bool
	tally  *Tally
}

func (a *asker) run(ctx context.Context, batches <-chan []Decision) {
	for batch := range batches {
		for k := range batch {
			if ctx.Err() != nil {
				break // what is asked with an ended context fails, which says nothing of the module
			}
			a.ask(ctx, &batch[k])
		}
	}
}

// ask asks one decision again.
func (a *asker) ask(ctx context.Context, d *Decision) {
	if why := a.passOver(d); why != "" {
		a.tally.Skip(why)
		return
	}
	got, err := a.module.Replay(ctx, d.Record)
	if err == nil && byChance(class(got.Is.Error)) {
		got, err = a.module.Replay(ctx, d.Record) // a machine with other work can be slow once
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.tally.Skip("its row cannot be read")
	case got.Lacks != "":
		a.tally.Skip("the log does not hold its whole " + got.Lacks)
	case a.exact:
		a.tally.Add(d, &got.Is, a.drift(&got))
	default:
		a.tally.Add(d, &got.Is, Change{Kind: changeOf(&got)})
	}
}

// passOver says why a decision cannot be compared, or "".
func (a *asker) passOver(d *Decision) string {
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

// class is that of a failure as records keep it, "" for none.
func class(failure string) policy.Class {
	c, _, _ := strings.Cut(failure, ":")
	return policy.Class(c)
}

// byChance reports whether a failure hangs on more than the decision.
func byChance(c policy.Class) bool {
	return c == policy.ClassDeadline || c == policy.ClassBusy || c == policy.ClassLoad
}

// changeOf compares what a candidate would do with what was done. Reasons are words for people: another one changes nothing.
func changeOf(got *policy.Replayed) Kind {
	switch was, is := &got.Was, &got.Is; {
	case was.Answer != is.Answer || class(was.Error) != class(is.Error):
		return KindAnswer
	case was.Reason != is.Reason:
		return KindReason
	}
	return KindNone
}

// drift compares a decision with its own repetition. The first host call that differs comes before the answer: it is the
// cause of what follows.
func (a *asker) drift(got *policy.Replayed) Change {
	was, is := &got.Was, &got.Is
	switch {
	case got.Call >= 0:
		return Change{KindCall, callDifference(was.Calls, is.Calls, got.Call)}
	case !sameAnswer(got):
		return Change{KindAnswer, ""}
	case got.Fuel:
		return Change{Kind: KindNone}
	case a.module.Isolation() == policy.IsolationWarm:
		return Change{KindWarm, fmt.Sprintf("fuel %+d", is.Fuel-was.Fuel)}
	}
	return Change{KindFuel, fmt.Sprintf("fuel %+d", is.Fuel-was.Fuel)}
}

// sameAnswer looks at the words alone in a row of an older flynn, which kept no raw answer, nor the file.
func sameAnswer(got *policy.Replayed) bool {
	was, is := &got.Was, &got.Is
	return got.Answer || was.File == "" && was.Answer == is.Answer && was.Reason == is.Reason && was.Error == is.Error
}

func callDifference(was, is []policy.HostCall, n int) string {
	return fmt.Sprintf("call %d: %s, was %s", n+1, callAt(is, n), callAt(was, n))
}

func callAt(calls []policy.HostCall, n int) string {
	if n >= len(calls) {
		return "none"
	}
	return calls[n].String()
}
