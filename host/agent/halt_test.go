package agent

import (
	"context"
	"slices"
	"testing"
)

func (r *hall) halt()   { why := "halted"; r.stopped.Store(&why); r.runner.Halt() }
func (r *hall) resume() { none := ""; r.stopped.Store(&none); r.runner.Resume() }

// TestHalt: what had not done anything begins anew after the switch is back, what was sent meanwhile waits, nothing is lost.
func TestHalt(t *testing.T) {
	r := newHall(t, nil)
	r.say("irc", "ann", "ann", "one")
	r.wantAsked("one")
	r.halt()
	r.say("irc", "bob", "bob", "two")
	r.until("the turn is over", func() bool { return !r.runner.Running("irc:ann") })
	if texts := r.texts(); len(texts) != 0 || len(r.entered) != 0 {
		t.Fatalf("replies are %q, %d models are asked", texts, len(r.entered))
	}
	r.leave <- struct{}{}
	r.leave <- struct{}{}
	r.resume()
	got := r.answered(2)
	slices.Sort(got)
	if !slices.Equal(got, []string{"echo: one", "echo: two"}) {
		t.Errorf("replies are %q", got)
	}
	r.nothingLeft()
}

// TestHaltEndsWhatHasBegun: a turn that has done something is not taken up again; its sender is told.
func TestHaltEndsWhatHasBegun(t *testing.T) {
	r := newHall(t, nil)
	touching := make(chan struct{})
	r.touch.during = func(ctx context.Context) { close(touching); <-ctx.Done() }
	r.say("irc", "ann", "ann", "!touch wood")
	r.asked()
	r.leave <- struct{}{}
	<-touching
	r.halt()
	r.wantReplies("Stopped: everything is halted until an owner resumes it.")
	r.nothingLeft()
	r.resume()
	if r.touch.counts["wood"] != 1 {
		t.Errorf("touched %d times", r.touch.counts["wood"])
	}
}

// TestHaltOutlastsTheProcess: a turn that an earlier process left running is ended while the switch is thrown, and messages wait.
func TestHaltOutlastsTheProcess(t *testing.T) {
	s := openStore(t)
	h := newHouse(t, s, nil)
	r, kill := open(t, s, h, nil, "")
	touching := make(chan struct{})
	h.touch.during = func(ctx context.Context) { close(touching); <-ctx.Done() }
	r.say("irc", "ann", "ann", "!touch wood")
	r.asked()
	r.leave <- struct{}{}
	<-touching
	r.say("irc", "bob", "bob", "two")
	r.wantAsked("two")
	kill()

	h = newHouse(t, s, nil)
	r, _ = open(t, s, h, nil, "halted")
	r.wantReplies("Stopped: everything is halted until an owner resumes it.")
	if len(r.entered) != 0 {
		t.Errorf("a model is asked %q", r.asked())
	}
	r.leave <- struct{}{}
	r.resume()
	r.wantReplies("Stopped: everything is halted until an owner resumes it.", "echo: two")
	r.nothingLeft()
}
