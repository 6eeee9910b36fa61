package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is an outbox table in memory, which keeps the order of states that each row went through.
type memory struct {
	mu   sync.Mutex
	rows map[string]mailbox.OutboxRow
	keys []string
	path map[string][]mailbox.OutboxState
}

func newMemory(rows ...mailbox.OutboxRow) *memory {
	m := &memory{rows: map[string]mailbox.OutboxRow{}, path: map[string][]mailbox.OutboxState{}}
	for _, r := range rows {
		m.rows[r.Reply.Key] = r
		m.keys = append(m.keys, r.Reply.Key)
	}
	return m
}

func (m *memory) UnsentOutbox(context.Context) ([]mailbox.OutboxRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []mailbox.OutboxRow
	for _, k := range m.keys {
		if r := m.rows[k]; r.State == mailbox.OutboxPending || r.State == mailbox.OutboxSending {
			out = append(out, r)
		}
	}
	return out, nil
}

func (m *memory) AddReplies(context.Context, string, []message.Reply) ([]message.Reply, error) {
	return nil, errors.ErrUnsupported // an outbox adds none
}

func (m *memory) SetOutbox(_ context.Context, r mailbox.OutboxRow) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.rows[r.Reply.Key]; !known {
		m.keys = append(m.keys, r.Reply.Key)
	}
	m.rows[r.Reply.Key] = r
	m.path[r.Reply.Key] = append(m.path[r.Reply.Key], r.State)
	return nil
}

func (m *memory) Replies(context.Context, string) ([]mailbox.OutboxRow, error) { return nil, nil }

// script is a channel that answers sends from a list, then with Sent.
type script struct {
	recognises bool
	answers    []any // message.Delivery or error

	mu    sync.Mutex
	sent  []string
	marks []bool
	at    []time.Time
}

func (s *script) Capabilities() message.Capabilities {
	return message.Capabilities{Idempotent: s.recognises}
}

func (s *script) Send(_ context.Context, r message.Reply) (message.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.marks, s.at = append(s.sent, r.Text), append(s.marks, r.PossibleDuplicate), append(s.at, time.Now())
	if len(s.answers) == 0 {
		return message.Delivery{Outcome: message.Sent, PlatformIDs: []string{"p"}}, nil
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	if err, ok := a.(error); ok {
		return message.Delivery{}, err
	}
	return a.(message.Delivery), nil
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// knowing is a script that can look a send up.
type knowing struct {
	*script
	outcome message.Outcome
}

func (knowing) Capabilities() message.Capabilities { return message.Capabilities{Reconcile: true} }

func (k knowing) Reconcile(context.Context, message.Reply) (message.Delivery, error) {
	return message.Delivery{Outcome: k.outcome}, nil
}

func row(key, scope string, state mailbox.OutboxState) mailbox.OutboxRow {
	return mailbox.OutboxRow{State: state, Reply: message.Reply{Key: key, Channel: "irc", Conversation: message.Conversation{ID: scope}, Text: key}}
}

// run starts an outbox over m with a channel, and stops it when everything has come to rest.
func run(t *testing.T, m mailbox.Outbox, s Sender, rest time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := NewOutbox(OutboxConfig{Store: m, Log: slog.New(slog.DiscardHandler)})
	var done sync.WaitGroup
	done.Go(func() {
		if err := o.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer o.Attach("irc", s)()
	time.Sleep(rest) // of the bubble's fake clock
	synctest.Wait()
	cancel()
	done.Wait()
}

func TestDelivery(t *testing.T) {
	notSent := message.Delivery{Outcome: message.NotSent}
	for _, c := range []struct {
		name   string
		start  mailbox.OutboxState
		sender Sender
		sends  int
		marked bool // the last send bears the mark of a possible duplicate
		end    mailbox.OutboxState
		path   []mailbox.OutboxState
	}{
		{"sent at once", mailbox.OutboxPending, &script{}, 1, false, mailbox.OutboxSent, []mailbox.OutboxState{"sending", "sent"}},
		{"a channel that recognises keys needs no mark before", mailbox.OutboxPending, &script{recognises: true}, 1, false, mailbox.OutboxSent,
			[]mailbox.OutboxState{"sent"}},
		{"not sent is tried again without a mark", mailbox.OutboxPending, &script{answers: []any{notSent, notSent}}, 3, false, mailbox.OutboxSent, nil},
		{"refused for good is given up at once", mailbox.OutboxPending, &script{answers: []any{message.Delivery{Outcome: message.Refused}}}, 1, false, mailbox.OutboxDead, nil},
		{"unknown is sent once more, marked", mailbox.OutboxPending, &script{answers: []any{message.Delivery{Outcome: message.Unknown}}}, 2, true, mailbox.OutboxSent, nil},
		{"an error is unknown", mailbox.OutboxPending, &script{answers: []any{errors.New("pipe broke")}}, 2, true, mailbox.OutboxSent, nil},
		{"unknown twice is given up", mailbox.OutboxPending, &script{answers: []any{errors.New("a"), errors.New("b")}}, 2, true, mailbox.OutboxDead, nil},
		{"an error where keys are recognised is just repeated", mailbox.OutboxPending,
			&script{recognises: true, answers: []any{errors.New("a"), errors.New("b"), errors.New("c")}}, 4, false, mailbox.OutboxSent, nil},
		{"a crash in mid-send leaves a marked resend", mailbox.OutboxSending, &script{}, 1, true, mailbox.OutboxSent, nil},
		{"a crash in mid-send where the channel knows it arrived", mailbox.OutboxSending, knowing{&script{}, message.Sent}, 0, false, mailbox.OutboxSent, nil},
		{"a crash in mid-send where the channel knows it did not", mailbox.OutboxSending, knowing{&script{}, message.NotSent}, 1, false, mailbox.OutboxSent, nil},
		{"a crash in mid-send where the channel cannot say", mailbox.OutboxSending, knowing{&script{}, message.Unknown}, 1, true, mailbox.OutboxSent, nil},
		{"duplicate counts as sent", mailbox.OutboxPending, &script{recognises: true, answers: []any{message.Delivery{Outcome: message.Duplicate}}}, 1, false, mailbox.OutboxSent, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(row("k", "#a", c.start))
				run(t, m, c.sender, time.Hour)
				s, ok := c.sender.(*script)
				if !ok {
					s = c.sender.(knowing).script
				}
				if len(s.sent) != c.sends {
					t.Errorf("%d sends, want %d", len(s.sent), c.sends)
				}
				if len(s.marks) > 0 && s.marks[len(s.marks)-1] != c.marked {
					t.Errorf("mark of a possible duplicate is %v, want %v", !c.marked, c.marked)
				}
				if got := m.rows["k"].State; got != c.end {
					t.Errorf("row ends as %s, want %s", got, c.end)
				}
				if c.path != nil && !slices.Equal(m.path["k"], c.path) {
					t.Errorf("row went through %v, want %v", m.path["k"], c.path)
				}
			})
		})
	}
}

func TestResendsThatWereCutOff(t *testing.T) {
	for _, c := range []struct {
		name     string
		note     string
		attempts int
		sends    int
		end      mailbox.OutboxState
	}{
		{"a marked resend cut off by a crash is sent again", "", 2, 1, mailbox.OutboxSent},
		{"a marked resend of unknown outcome is given up, even after a crash", "unknown", 2, 0, mailbox.OutboxDead},
		{"a send that goes with a crash each time is given up at last", "", maxResends, 0, mailbox.OutboxDead},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := row("k", "#a", mailbox.OutboxSending)
				r.Reply.PossibleDuplicate, r.Note, r.Attempts = true, c.note, c.attempts
				m, s := newMemory(r), &script{}
				run(t, m, s, time.Hour)
				if len(s.sent) != c.sends || slices.Contains(s.marks, false) {
					t.Errorf("%d sends, marks %v, want %d, all marked", len(s.sent), s.marks, c.sends)
				}
				if got := m.rows["k"].State; got != c.end {
					t.Errorf("row ends as %s, want %s", got, c.end)
				}
			})
		})
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []any{message.Delivery{Outcome: message.NotSent, RetryAfter: 90 * time.Second}}}
		run(t, newMemory(row("k", "#a", mailbox.OutboxPending)), s, time.Hour)
		if gap := s.at[1].Sub(s.at[0]); gap < 90*time.Second {
			t.Fatalf("tried again after %s, asked for 90s", gap)
		}
	})
}

// TestAChannelThatIsBackEndsThePause has a channel fail until the pauses are minutes long, and come back: in the same process, and in the
// next one. A pause that the channel asked for, and one after a send whose outcome is unknown, are kept.
func TestAChannelThatIsBackEndsThePause(t *testing.T) {
	for _, tt := range []struct {
		name  string
		last  message.Delivery
		again bool
	}{
		{"it could not send", message.Delivery{Outcome: message.NotSent}, true},
		{"it asked for a pause", message.Delivery{Outcome: message.NotSent, RetryAfter: 10 * time.Minute}, false},
		{"it does not know", message.Delivery{Outcome: message.Unknown}, false},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart=%v", tt.name, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory(row("k", "#a", mailbox.OutboxPending))
					down, back := &script{recognises: true}, &script{recognises: true}
					for range 10 {
						down.answers = append(down.answers, message.Delivery{Outcome: message.NotSent})
					}
					down.answers = append(down.answers, tt.last, message.Delivery{Outcome: message.NotSent, RetryAfter: time.Hour})
					start := func() (o *Outbox, stop func()) {
						ctx, cancel := context.WithCancel(t.Context())
						o = NewOutbox(OutboxConfig{Store: m, Log: slog.New(slog.DiscardHandler)})
						var done sync.WaitGroup
						done.Go(func() { o.Run(ctx) })
						return o, func() { cancel(); done.Wait() }
					}
					o, stop := start()
					detach := o.Attach("irc", down)
					for down.count() < 11 {
						time.Sleep(time.Second)
					}
					synctest.Wait()
					detach()
					if restart {
						stop()
						o, stop = start()
					}
					o.Attach("irc", back)
					time.Sleep(time.Second)
					synctest.Wait()
					stop()
					if got := len(back.sent) > 0; got != tt.again {
						t.Errorf("sent %v at once, want %v", back.sent, tt.again)
					}
				})
			})
		}
	}
}

func TestOrderWithinAConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows []mailbox.OutboxRow
		for i := range 10 {
			rows = append(rows, row(fmt.Sprintf("a%d", i), "#a", mailbox.OutboxPending))
		}
		s := &script{answers: []any{message.Delivery{Outcome: message.NotSent}}} // the first one stumbles; the others wait for it
		run(t, newMemory(rows...), s, time.Hour)
		if !slices.IsSorted(s.sent) || len(s.sent) != 11 {
			t.Fatalf("sent %v", s.sent)
		}
	})
}

// TestARecoveredReplyIsNotOvertaken pushes replies of turns that ended before the outbox had loaded what was left.
func TestARecoveredReplyIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, both, late := row("a", "#a", mailbox.OutboxPending), row("b", "#a", mailbox.OutboxPending), row("c", "#a", mailbox.OutboxPending)
		m, s := newMemory(left, both), &script{recognises: true}
		o := NewOutbox(OutboxConfig{Store: m, Log: slog.New(slog.DiscardHandler)})
		o.Attach("irc", s)
		o.Push("t2", both.Reply) // committed before the load and pushed before it
		o.Push("t3", late.Reply) // committed after it
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { o.Run(ctx) })
		synctest.Wait()
		cancel()
		done.Wait()
		if want := []string{"a", "b", "c"}; !slices.Equal(s.sent, want) {
			t.Fatalf("sent %v, want %v", s.sent, want)
		}
	})
}

func TestRepliesWaitForTheirChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := newMemory()
		o := NewOutbox(OutboxConfig{Store: m, Log: slog.New(slog.DiscardHandler)})
		var done sync.WaitGroup
		done.Go(func() { o.Run(ctx) })
		synctest.Wait()
		r := row("k", "#a", mailbox.OutboxPending)
		m.SetOutbox(ctx, r)
		o.Push("t1", r.Reply)
		time.Sleep(time.Hour)
		first, second := &script{}, &script{}
		detach := o.Attach("irc", first)
		synctest.Wait()
		if len(first.sent) != 1 {
			t.Errorf("sent %v once the channel was there", first.sent)
		}
		o.Attach("irc", second)
		detach() // a late farewell of the old one must not take the new one away
		o.Push("t2", row("k2", "#a", mailbox.OutboxPending).Reply)
		synctest.Wait()
		if len(second.sent) != 1 {
			t.Errorf("sent %v to the new channel", second.sent)
		}
		cancel()
		done.Wait()
	})
}
