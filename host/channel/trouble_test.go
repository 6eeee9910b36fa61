package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// full is an outbox table on a disk that is full from its nth write on, for a while.
type full struct {
	*memory
	from   int
	lasts  time.Duration
	writes int
	until  time.Time
}

var errFull = errors.New("database or disk is full")

func (f *full) SetOutbox(ctx context.Context, r mailbox.OutboxRow) error {
	if f.writes++; f.writes == f.from {
		f.until = time.Now().Add(f.lasts)
	}
	if time.Now().Before(f.until) {
		return errFull
	}
	return f.memory.SetOutbox(ctx, r)
}

// TestAFullDiskNeitherRepeatsNorLosesAReply fills the disk before and after a send. The reply is sent once, without a
// mark, however long the disk was full.
func TestAFullDiskNeitherRepeatsNorLosesAReply(t *testing.T) {
	for _, from := range []int{1, 2} {
		for _, lasts := range []time.Duration{time.Millisecond, 5 * time.Second, 25 * time.Second, 10 * time.Minute} {
			for _, recognises := range []bool{true, false} {
				t.Run(fmt.Sprintf("write %d, %s, recognises=%v", from, lasts, recognises), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := &full{memory: newMemory(row("k", "#a", mailbox.OutboxPending)), from: from, lasts: lasts}
						s := &script{recognises: recognises}
						run(t, m, s, time.Hour)
						if len(s.sent) != 1 || slices.Contains(s.marks, true) {
							t.Errorf("%d sends, marks %v, want one without a mark", len(s.sent), s.marks)
						}
						if got := m.rows["k"].State; got != mailbox.OutboxSent {
							t.Errorf("row ends as %s (%s)", got, m.rows["k"].Note)
						}
						if m.writes > 2000 {
							t.Errorf("the store was asked %d times", m.writes)
						}
					})
				})
			}
		}
	}
}

// TestTheHostEndsWhileTheDiskIsFull leaves what it cannot store to the next start.
func TestTheHostEndsWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &full{memory: newMemory(row("k", "#a", mailbox.OutboxPending)), from: 2, lasts: 24 * time.Hour}
		s := &script{answers: []any{message.Delivery{Outcome: message.Sent}}}
		run(t, m, s, time.Minute)
		if got := m.rows["k"].State; got != mailbox.OutboxSending || len(s.sent) != 1 {
			t.Errorf("row ends as %s after %d sends", got, len(s.sent))
		}
	})
}

// fullInbox is an inbox table on a disk that is full for a while.
type fullInbox struct {
	mailbox.Inbox
	until time.Time
}

func (f *fullInbox) AppendInbox(ctx context.Context, m message.Message, s mailbox.InboxState, note string) (mailbox.InboxRow, bool, error) {
	if time.Now().Before(f.until) {
		return mailbox.InboxRow{}, false, errFull
	}
	return f.Inbox.AppendInbox(ctx, m, s, note)
}

// TestAFullDiskLosesNoMessage fills the disk while a message comes in over a channel that cannot be asked for it again.
// The message is taken when there is room, on the judgement of the moment when it came.
func TestAFullDiskLosesNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, delivered := 0, 0
		s := open(t)
		in := NewInbox(InboxConfig{
			Store:    &fullInbox{s, time.Now().Add(time.Hour)},
			Admitter: admits(func(message.Message) Admission { asked++; return Admission{Allowed: asked == 1, Why: "too many"} }),
			Takers:   delivers(func(mailbox.InboxRow) { delivered++ }),
		})
		if err := in.Take(t.Context(), hello()); err != nil {
			t.Fatal(err)
		}
		if rows, err := s.PendingInbox(t.Context()); err != nil || len(rows) != 1 || delivered != 1 {
			t.Fatalf("%d rows (%v), %d delivered, want 1", len(rows), err, delivered)
		}
	})
}

// TestTakeEndsWithItsContext lets a channel stop while the disk is full.
func TestTakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := NewInbox(InboxConfig{
			Store:    &fullInbox{open(t), time.Now().Add(time.Hour)},
			Admitter: admits(func(message.Message) Admission { return Admission{Allowed: true} }),
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := in.Take(ctx, hello()); !errors.Is(err, errFull) {
			t.Fatalf("take: %v", err)
		}
		if err := in.Accept(t.Context(), hello()); !errors.Is(err, errFull) {
			t.Fatalf("accept: %v", err)
		}
	})
}

// TestAClockThatWasAheadDoesNotHoldAReply has a row of an earlier process whose clock was years ahead.
func TestAClockThatWasAheadDoesNotHoldAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := row("k", "#a", mailbox.OutboxPending)
		r.NextTry, r.Attempts = time.Now().AddDate(10, 0, 0), 1
		m, s := newMemory(r), &script{}
		run(t, m, s, 2*maxPause)
		if len(s.sent) != 1 {
			t.Fatalf("%d sends within %s, want 1", len(s.sent), 2*maxPause)
		}
	})
}

// TestWhatWaitsAndWhatIsGivenUpIsCounted looks at what an operator can see of replies that do not arrive.
func TestWhatWaitsAndWhatIsGivenUpIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hopeless := row("k0", "#a", mailbox.OutboxSending)
		hopeless.Reply.PossibleDuplicate, hopeless.Note = true, noteUnknown
		m := newMemory(hopeless, row("k1", "#a", mailbox.OutboxPending), row("k2", "#b", mailbox.OutboxPending))
		var mu sync.Mutex // conversations are served side by side
		counts := map[string]int{}
		o := NewOutbox(OutboxConfig{Store: m, Log: slog.New(slog.DiscardHandler), Events: event.Only(func(e Delivered) {
			mu.Lock()
			defer mu.Unlock()
			counts[e.Outcome]++
		})})
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { o.Run(ctx) })
		time.Sleep(time.Hour)
		if got := o.Waiting(); !maps.Equal(got, map[string]int{"irc": 3}) {
			t.Errorf("%v wait, want 3 for irc", got)
		}
		o.Attach("irc", &script{})
		synctest.Wait()
		if got := o.Waiting(); len(got) != 0 {
			t.Errorf("%v wait, want none", got)
		}
		cancel()
		done.Wait()
		if want := map[string]int{"dead": 1, string(message.Sent): 2}; !maps.Equal(counts, want) {
			t.Errorf("counted %v, want %v", counts, want)
		}
	})
}

// TestATakenChannelIsLeftAlone has another host take a channel while a reply waits: it is not sent here, and nothing is tried again.
func TestATakenChannelIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &takenRows{memory: newMemory(row("k", "#a", mailbox.OutboxPending))}
		s := &script{}
		run(t, m, s, time.Minute)
		if len(s.sent) != 0 || m.writes != 1 {
			t.Errorf("%d sends, %d writes, want none and one", len(s.sent), m.writes)
		}
	})
}

// takenRows is an outbox table of a channel that another host has taken.
type takenRows struct {
	*memory
	writes int
}

func (r *takenRows) SetOutbox(context.Context, mailbox.OutboxRow) error {
	r.writes++
	return fmt.Errorf("channel irc: %w", store.ErrFenced)
}
