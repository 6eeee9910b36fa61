package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// slow is a channel that shows a line every two seconds, at most some of them in a call, and keeps nothing between calls.
type slow struct {
	most int
	lose func(call int) bool // the answer of that call is lost, though its lines were shown

	mu    sync.Mutex
	calls int
	shown []string
}

func (s *slow) Capabilities() message.Capabilities { return message.Capabilities{} }

func (s *slow) Send(_ context.Context, r message.Reply) (message.Delivery, error) {
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.mu.Unlock()
	lines := strings.Split(r.Text, "\n")
	from, _ := strconv.Atoi(r.Resume)
	to := min(from+s.most, len(lines))
	var ids []string
	for i := from; i < to; i++ {
		time.Sleep(2 * time.Second)
		line := lines[i]
		if i == from && r.PossibleDuplicate {
			line = "again: " + line
		}
		s.mu.Lock()
		s.shown = append(s.shown, line)
		s.mu.Unlock()
		ids = append(ids, strconv.Itoa(i))
	}
	switch {
	case s.lose != nil && s.lose(call):
		return message.Delivery{}, errors.New("connection reset")
	case to < len(lines):
		return message.Delivery{Outcome: message.NotSent, PlatformIDs: ids, Resume: strconv.Itoa(to)}, nil
	}
	return message.Delivery{Outcome: message.Sent, PlatformIDs: ids}, nil
}

func numbered(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d <&> \u202eenil", i)
	}
	return lines
}

// TestALongAnswerArrivesInPieces has answers that take longer than any call may, on a channel that says how far it got.
func TestALongAnswerArrivesInPieces(t *testing.T) {
	for _, n := range []int{1, 40, 200, 2000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := row("k", "#a", mailbox.OutboxPending)
				want := numbered(n)
				r.Reply.Text = strings.Join(want, "\n")
				m, s := newMemory(r), &slow{most: 7}
				run(t, m, s, time.Duration(n)*2*time.Second+time.Minute)
				if !slices.Equal(s.shown, want) {
					t.Errorf("%d lines were shown, want %d; the last ones %q", len(s.shown), n, s.shown[max(0, len(s.shown)-3):])
				}
				if end := m.rows["k"]; end.State != mailbox.OutboxSent || len(end.PlatformIDs) != n || end.Reply.PossibleDuplicate || end.Reply.Resume != "" {
					t.Errorf("the row is %s with %d ids and resume %q", end.State, len(end.PlatformIDs), end.Reply.Resume)
				}
			})
		})
	}
}

// TestALongAnswerGoesOnAfterARestart stops the host again and again in the middle of an answer.
func TestALongAnswerGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := row("k", "#a", mailbox.OutboxPending)
		want := numbered(200)
		r.Reply.Text = strings.Join(want, "\n")
		m, s := newMemory(r), &slow{most: 7}
		for range 100 {
			run(t, m, s, 31*time.Second)
		}
		if !slices.Equal(s.shown, want) || m.rows["k"].State != mailbox.OutboxSent {
			t.Errorf("%d lines were shown, want 200; the row is %s", len(s.shown), m.rows["k"].State)
		}
	})
}

// TestOnlyWhatIsUnclearIsMarked loses the answers of two calls in the middle, one of them about a resend.
func TestOnlyWhatIsUnclearIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := row("k", "#a", mailbox.OutboxPending)
		lines := numbered(40)
		r.Reply.Text = strings.Join(lines, "\n")
		m := newMemory(r)
		s := &slow{most: 10, lose: func(call int) bool { return call == 2 || call == 4 }}
		run(t, m, s, time.Hour)
		want := slices.Clone(lines[:20])
		for _, from := range []int{10, 20} { // those of call 2 again, then those of call 4, which were shown as well
			again := slices.Clone(lines[from : from+10])
			again[0] = "again: " + again[0]
			if from == 20 {
				want = append(want, lines[20:30]...)
			}
			want = append(want, again...)
		}
		want = append(want, lines[30:]...)
		if !slices.Equal(s.shown, want) || m.rows["k"].State != mailbox.OutboxSent {
			t.Errorf("shown %q\nwant  %q; the row is %s", s.shown, want, m.rows["k"].State)
		}
	})
}

// endless is a channel that claims progress for ever.
type endless struct{ calls int }

func (e *endless) Capabilities() message.Capabilities { return message.Capabilities{} }

func (e *endless) Send(context.Context, message.Reply) (message.Delivery, error) {
	e.calls++
	return message.Delivery{Outcome: message.NotSent, Resume: strconv.Itoa(e.calls)}, nil
}

// TestAChannelThatNeverEndsIsGivenUp bounds what a channel says of itself.
func TestAChannelThatNeverEndsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(row("k", "#a", mailbox.OutboxPending)), &endless{}
		run(t, m, s, 48*time.Hour)
		if got := m.rows["k"].State; got != mailbox.OutboxDead || s.calls > maxResumed+maxAttempts {
			t.Errorf("the row is %s after %d calls", got, s.calls)
		}
	})
}

// TestTheClockGoesBackInAPause sets the clock back by five hours while a reply waits for its next try, in the same process and before
// another one starts.
func TestTheClockGoesBackInAPause(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(row("k", "#a", mailbox.OutboxPending), row("behind", "#a", mailbox.OutboxPending))
				s := &script{answers: []any{message.Delivery{Outcome: message.NotSent, RetryAfter: 20 * time.Second}}}
				var mu sync.Mutex
				shift := 5 * time.Hour
				now := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Round(0).Add(shift) }
				start := func() (stop func()) {
					ctx, cancel := context.WithCancel(t.Context())
					o := NewOutbox(OutboxConfig{Store: m, Log: slog.New(slog.DiscardHandler), Now: now})
					o.Attach("irc", s)
					var done sync.WaitGroup
					done.Go(func() { o.Run(ctx) })
					return func() { cancel(); done.Wait() }
				}
				stop := start()
				time.Sleep(10 * time.Second)
				mu.Lock()
				shift = 0
				mu.Unlock()
				if restart {
					stop()
					stop = start()
				}
				time.Sleep(21 * time.Second)
				synctest.Wait()
				stop()
				if got := fmt.Sprint(s.sent); got != "[k k behind]" {
					t.Errorf("sent %s half a minute after the clock went back, want [k k behind]", got)
				}
			})
		})
	}
}
