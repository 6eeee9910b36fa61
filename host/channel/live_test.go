package channel

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

func TestTyping(t *testing.T) {
	kind := func(k message.EventKind) message.Event { return message.Event{Kind: k} }
	for _, c := range []struct {
		name   string
		can    bool
		turn   func(*View)
		typing []string
	}{
		{"a short turn shows none", true, func(*View) { time.Sleep(200 * time.Millisecond) }, nil},
		{"a longer one until its end, renewed in time", true, func(*View) { time.Sleep(9 * time.Second) },
			[]string{"0.3 true", "4.3 true", "8.3 true", "9.0 false"}},
		{"not while a person is awaited", true, func(v *View) {
			time.Sleep(time.Second)
			v.Event(kind(message.ToolApproval))
			time.Sleep(61 * time.Second)
			v.Event(kind(message.ToolDecision))
			time.Sleep(time.Second)
		}, []string{"0.3 true", "1.0 false", "62.0 true", "63.0 false"}},
		{"a turn that ends while a person is awaited", true, func(v *View) {
			time.Sleep(time.Second)
			v.Event(kind(message.ToolApproval))
			time.Sleep(time.Minute)
		}, []string{"0.3 true", "1.0 false"}},
		{"a channel without typing", false, func(*View) { time.Sleep(9 * time.Second) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pad := newCanvas(true)
				pad.can = message.Capabilities{Typing: c.can}
				d := newLiveOutbox(t, newMemory(), newShelf(), pad)
				v := d.live.Show(answerTo)
				if (v != nil) != c.can {
					t.Fatalf("the view is %v", v)
				}
				c.turn(v)
				synctest.Wait()
				if v != nil {
					v.Over()
					v.Over()
				}
				time.Sleep(time.Hour)
				d.stop()
				if !slices.Equal(pad.typing, c.typing) {
					t.Errorf("typing %q, want %q", pad.typing, c.typing)
				}
			})
		})
	}
}

// TestViewsEndWithLive leaves a turn running when the host ends, which is how a process goes down.
func TestViewsEndWithLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pad := newCanvas(true)
		pad.can.Typing = true
		d := newLiveOutbox(t, newMemory(), newShelf(), pad)
		v := d.live.Show(answerTo)
		v.Event(delta("hello"))
		time.Sleep(3 * time.Second)
		d.stop()
		if v := d.live.Show(answerTo); v != nil {
			t.Error("a view began after the end")
		}
		if got := pad.calls(); !slices.Equal(got, []string{`1.0 draft "hello"`}) {
			t.Errorf("calls %q", got)
		}
	})
}

// TestAHangingDraftHoldsUpNothingElse sends a draft to a channel that answers after a while: other conversations do not notice, the
// answer waits for the call and completes the draft.
func TestAHangingDraftHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pad, rows := newCanvas(true), newMemory()
		d := newLiveOutbox(t, rows, newShelf(), pad)
		d.rows = rows
		pad.delays = []time.Duration{10 * time.Second}
		v := d.live.Show(answerTo)
		v.Event(delta("he"))
		time.Sleep(1100 * time.Millisecond) // the draft is on its way
		d.answer(v, answerTo, "hello")
		other := answerTo
		other.Key, other.Answers, other.Conversation.ID = "o/0", 8, "#other"
		d.answer(nil, other, "for others")
		time.Sleep(time.Hour)
		d.stop()
		want := []string{`1.1 send "for others"`, `11.0 draft "he"`, `11.0 final "hello"`}
		if got := pad.calls(); !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
	})
}
