package channel

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// TestAPreviousHostMayStillAct: a host that takes a channel over sends at once what was not begun. It repeats at once with a mark what was, or asks
// for it when it must be over; and an answer that people see growing is complete at once, and again after the last edit of the other.
func TestAPreviousHostMayStillAct(t *testing.T) {
	const rest = 4 * time.Second
	begun := mailbox.OutboxRow{State: mailbox.OutboxSending, Reply: answerTo}
	begun.Reply.Text = "an answer"
	ready := begun
	ready.State = mailbox.OutboxPending
	draft := mailbox.Draft{Inbox: answerTo.Answers, Key: draftKey(answerTo.Key), MessageID: "m1", SentAt: time.Now()}
	lost := draft
	lost.MessageID = ""
	for name, c := range map[string]struct {
		row    mailbox.OutboxRow
		drafts []mailbox.Draft
		asks   bool
		late   time.Duration // when the other host's call arrives, if it does
		calls  []string
		seen   []string
	}{
		"not begun": {row: ready, calls: []string{`0.0 send "an answer"`}, seen: []string{"an answer"}},
		"begun":     {row: begun, calls: []string{`0.0 send "(again?) an answer"`}, seen: []string{"(again?) an answer"}},
		"begun, and can be asked for": {
			row: begun, asks: true, calls: []string{`4.0 send "an answer"`}, seen: []string{"an answer"},
		},
		"begun, arrives, and can be asked for": {row: begun, asks: true, late: 3 * time.Second, seen: []string{"an answer"}},
		"a draft": {
			row: ready, drafts: []mailbox.Draft{draft}, calls: []string{`0.0 edit "an answer"`, `4.0 final "an answer"`}, seen: []string{"an answer"},
		},
		"a draft, and a late edit": {
			row: ready, drafts: []mailbox.Draft{draft}, late: 3 * time.Second,
			calls: []string{`0.0 edit "an answer"`, `4.0 final "an answer"`}, seen: []string{"an answer"},
		},
		"a draft that arrives late": {
			row: ready, drafts: []mailbox.Draft{lost}, asks: true, late: 3 * time.Second, calls: []string{`4.0 final "an answer"`}, seen: []string{"an answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				people := newCanvas(false)
				var s Sender = people
				if c.asks {
					s = album{people}
				}
				if len(c.drafts) > 0 && c.drafts[0].MessageID != "" {
					people.put(draft.Key, "an")
				}
				own := &oneOf{held: map[store.OwnerKey]context.CancelFunc{}, rest: time.Now().Add(rest)}
				o := NewOutbox(OutboxConfig{Store: newMemory(c.row), Drafts: newShelf(c.drafts...), Log: slog.New(slog.DiscardHandler), Ownership: own})
				ctx, stop := context.WithCancel(t.Context())
				over := make(chan error, 1)
				go func() { over <- o.Run(ctx) }()
				defer o.Attach("irc", s)()
				if c.late > 0 {
					time.Sleep(c.late)
					switch {
					case len(c.drafts) == 0:
						people.put(answerTo.Key, "an answer")
					case c.drafts[0].MessageID == "":
						people.put(draft.Key, "an")
					default:
						people.mu.Lock()
						people.shows["m1"] = "an ans"
						people.mu.Unlock()
					}
				}
				time.Sleep(time.Minute)
				stop()
				if err := <-over; err != nil {
					t.Error(err)
				}
				if calls := people.calls(); !slices.Equal(calls, c.calls) {
					t.Errorf("the calls are %q, want %q", calls, c.calls)
				}
				if seen := people.seen(); !slices.Equal(seen, c.seen) {
					t.Errorf("people see %q, want %q", seen, c.seen)
				}
			})
		})
	}
}

// unable is the ownership of a host that lost its channel.
type unable struct{ alone }

func (unable) Begin(context.Context) error { return store.ErrFenced }

// TestADraftIsNotBegunWithoutTheChannel: another host may already have sent the answer.
func TestADraftIsNotBegunWithoutTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := newCanvas(false)
		d := newLiveOutbox(t, newMemory(), newShelf(), people)
		defer d.stop()
		d.Outbox.cfg.Ownership = unable{}
		v := d.live.Show(answerTo)
		defer v.Over()
		v.Event(message.Event{Kind: message.TextDelta, Text: "an answer"})
		time.Sleep(time.Minute)
		if calls := people.calls(); len(calls) > 0 {
			t.Errorf("the calls are %q", calls)
		}
	})
}
