package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

func (f *full) SetOutbox(ctx context.Context, r store.OutboxRow) error {
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
						m := &full{memory: newMemory(row("k", "#a", store.OutboxPending)), from: from, lasts: lasts}
						s := &script{recognises: recognises}
						run(t, m, s, time.Hour)
						if len(s.sent) != 1 || slices.Contains(s.marks, true) {
							t.Errorf("%d sends, marks %v, want one without a mark", len(s.sent), s.marks)
						}
						if got := m.rows["k"].State; got != store.OutboxSent {
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
		m := &full{memory: newMemory(row("k", "#a", store.OutboxPending)), from: 2, lasts: 24 * time.Hour}
		s := &script{answers: []any{Result{Outcome: message.Sent}}}
		run(t, m, s, time.Minute)
		if got := m.rows["k"].State; got != store.OutboxSending || len(s.sent) != 1 {
			t.Errorf("row ends as %s after %d sends", got, len(s.sent))
		}
	})
}
