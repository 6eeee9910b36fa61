package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eight is when these tests begin; the schedules are due every hour.
var eight = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func hourly(change func(*Entry)) Entry {
	e := Entry{
		Name: "report", Agent: "main", Text: "go", As: "irc:ann", Deliver: "irc:#team", Quiet: "HEARTBEAT_OK", CatchUp: CatchUpOnce,
		Timing: "every 1h", Next: Every(time.Hour),
	}
	if change != nil {
		change(&e)
	}
	return e
}

func TestPlan(t *testing.T) {
	at := func(hours float64) time.Time { return eight.Add(time.Duration(hours * float64(time.Hour))) }
	for _, c := range []struct {
		name    string
		catchUp string
		until   time.Time
		busy    bool
		want    string // state, due hour, count
	}{
		{"not yet", CatchUpOnce, at(0.9), false, ""},
		{"on time", CatchUpOnce, at(1), false, "due 9 x1"},
		{"a little late", CatchUpSkip, at(1.02), false, "due 9 x1"},
		{"on time, but one runs", CatchUpOnce, at(1), true, "skipped 9 x1"},
		{"on time, but one runs, all", CatchUpAll, at(1), true, "skipped 9 x1"},
		{"missed, skip", CatchUpSkip, at(3.5), false, "missed 11 x3"},
		{"missed, once", CatchUpOnce, at(3.5), false, "missed 10 x2, due 11 x1"},
		{"missed, once, and one is due now", CatchUpOnce, at(3), false, "missed 10 x2, due 11 x1"},
		{"missed, all", CatchUpAll, at(3.5), false, "due 9 x1, due 10 x1, due 11 x1"},
		{"missed, all, and one is due now", CatchUpAll, at(3), false, "due 9 x1, due 10 x1, due 11 x1"},
		{"missed, more than all", CatchUpAll, at(12.5), false, "missed 10 x2, due 11 x1, due 12 x1, due 13 x1, due 14 x1, due 15 x1, due 16 x1, due 17 x1, due 18 x1, due 19 x1, due 20 x1"},
		{"missed while one runs, once", CatchUpOnce, at(3.5), true, "missed 11 x3"},
		{"missed while one runs, and one is due now", CatchUpOnce, at(3), true, "missed 10 x2, skipped 11 x1"},
		{"the clock was set back", CatchUpOnce, at(-3), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := hourly(func(e *Entry) { e.CatchUp = c.catchUp })
			p := e.plan(eight, c.until, c.busy)
			var got []string
			for _, r := range p.runs {
				got = append(got, fmt.Sprintf("%s %d x%d", r.State, r.Due.Hour(), r.Count))
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("planned %q, want %q", s, c.want)
			}
			if p.upto.Before(eight) || len(got) > 0 && p.upto.Hour() != c.until.Truncate(time.Hour).Hour() {
				t.Errorf("dealt with up to %s", p.upto)
			}
		})
	}
}

// Two times that are due together, as after a minute without a host, are one run, and nobody is told that another one is under way.
func TestWhyARunIsSkipped(t *testing.T) {
	e := hourly(func(e *Entry) { e.Next = Every(time.Minute) })
	for busy, want := range map[bool]string{false: laterDue, true: underWay} {
		p := e.plan(eight, eight.Add(2*time.Minute), busy)
		if len(p.runs) == 0 || p.runs[0].State != timetable.RunSkipped || p.runs[0].Note != want {
			t.Errorf("busy %v: planned %+v, want %q", busy, p.runs, want)
		}
	}
}

func TestJitterIsTheSameInEveryProcess(t *testing.T) {
	e := hourly(func(e *Entry) { e.Jitter = 10 * time.Minute })
	seen := map[time.Duration]bool{}
	for n := range 50 {
		due := eight.Add(time.Duration(n) * time.Hour)
		off := e.fires(due).Sub(due)
		if off < 0 || off >= e.Jitter || off != e.fires(due).Sub(due) {
			t.Fatalf("put off by %s", off)
		}
		seen[off] = true
	}
	if len(seen) < 40 {
		t.Errorf("only %d different delays of 50", len(seen))
	}
}

// bench is a scheduler over a store, with a clock that stands still and agents that answer when they are told to.
type bench struct {
	*testing.T
	store   *sqlite.Store
	now     time.Time
	s       *Scheduler
	entries []Entry
	pushed  []message.Reply
	submits int
	broken  func() error // asked before each write
	turns   int
}

func newBench(t *testing.T, entries ...Entry) *bench {
	st, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	b := &bench{T: t, store: st, now: eight.Add(-time.Minute), entries: entries, broken: func() error { return nil }}
	b.restart()
	b.look()
	return b
}

// fragile breaks when the bench says so.
type fragile struct {
	*sqlite.Store
	b *bench
}

func (f fragile) PutSchedule(ctx context.Context, s timetable.Schedule, runs []timetable.Run) error {
	if err := f.b.broken(); err != nil {
		return err
	}
	return f.Store.PutSchedule(ctx, s, runs)
}

func (f fragile) AddReplies(ctx context.Context, turn string, rs []message.Reply) ([]message.Reply, error) {
	if err := f.b.broken(); err != nil {
		return nil, err
	}
	return f.Store.AddReplies(ctx, turn, rs)
}

// restart is another process.
func (b *bench) restart() {
	b.s = New(Config{
		Store: fragile{b.store, b}, Now: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler),
		Replied: func(_ string, r message.Reply) { b.pushed = append(b.pushed, r) },
		Submit: func(ctx context.Context, m message.Message) error {
			if err := b.broken(); err != nil {
				return err
			}
			_, fresh, err := b.store.AppendInbox(ctx, m, mailbox.InboxNew, "")
			if fresh {
				b.submits++
			}
			return err
		},
	})
	b.s.Set(b.entries)
}

func (b *bench) look() {
	b.Helper()
	if _, err := b.s.look(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) pass(d time.Duration) {
	b.Helper()
	b.now = b.now.Add(d)
	b.look()
}

// answer ends the turn of the one message that waits.
func (b *bench) answer(state turnlog.TurnState, text string) {
	b.Helper()
	rows, err := b.store.PendingInbox(b.Context())
	if err != nil || len(rows) != 1 {
		b.Fatalf("%d messages wait, want 1; %v", len(rows), err)
	}
	b.turns++
	m := rows[0].Message
	t := turnlog.Turn{
		ID: fmt.Sprint("t", b.turns), Session: "schedule:report:main", Agent: "main", Channel: m.Channel, Conversation: m.Conversation,
		Sender: m.SenderKey(), Inbox: []int64{rows[0].ID}, State: state, Started: b.now, Ended: b.now,
	}
	c := turnlog.Commit{Turn: t, InboxState: mailbox.InboxDone, Replies: []message.Reply{{
		Key: t.ID + "/0", Channel: m.Channel, Conversation: m.Conversation, Text: text, Answers: rows[0].ID,
	}}}
	if state == turnlog.TurnFailed {
		c.InboxState = mailbox.InboxFailed
	}
	if err := b.store.CommitTurn(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	b.look()
}

func (b *bench) texts() string {
	var out []string
	for _, r := range b.pushed {
		if r.Channel != "irc" || r.Conversation.ID != "#team" {
			b.Errorf("delivered to %s:%s", r.Channel, r.Conversation.ID)
		}
		out = append(out, r.Text)
	}
	return strings.Join(out, "|")
}

func (b *bench) states() string {
	b.Helper()
	runs, err := b.store.ScheduleRuns(b.Context(), "report", "", 100)
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, r := range runs {
		out = append([]string{string(r.State)}, out...)
	}
	return strings.Join(out, " ")
}

func TestARunIsMadeAndDelivered(t *testing.T) {
	b := newBench(t, hourly(nil))
	b.pass(30 * time.Second)
	if b.submits != 0 {
		t.Fatal("it ran before its time")
	}
	b.pass(30 * time.Second)
	rows, err := b.store.PendingInbox(t.Context())
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d messages, %v", len(rows), err)
	}
	m := rows[0].Message
	if m.SenderKey() != "irc:ann" || m.Agent != "main" || m.EventID != "report@2026-11-21T08:00:00Z" || m.Text != "go" {
		t.Errorf("message %+v", m)
	}
	b.look()
	b.restart()
	b.look()
	b.answer(turnlog.TurnDone, "all is well")
	b.look()
	if b.submits != 1 || b.texts() != "all is well" || b.states() != "done" {
		t.Errorf("made %d times, delivered %q, runs %s", b.submits, b.texts(), b.states())
	}
}

func TestQuietAnswersAreNotDelivered(t *testing.T) {
	b := newBench(t, hourly(nil))
	for _, text := range []string{"HEARTBEAT_OK", " heartbeat_ok.\n", "**HEARTBEAT_OK**", "HEARTBEAT_OK, but the disk is full"} {
		b.pass(time.Hour)
		b.answer(turnlog.TurnDone, text)
	}
	if b.texts() != "HEARTBEAT_OK, but the disk is full" {
		t.Errorf("delivered %q", b.texts())
	}
}

func TestNoPileUp(t *testing.T) {
	b := newBench(t, hourly(nil))
	b.pass(time.Minute)
	for range 3 {
		b.pass(time.Hour)
	}
	if b.submits != 1 || b.states() != "made skipped skipped skipped" || strings.Count(b.texts(), "was skipped") != 1 {
		t.Errorf("made %d, runs %s, said %q", b.submits, b.states(), b.texts())
	}
	b.answer(turnlog.TurnDone, "at last")
	b.pass(time.Hour)
	if b.submits != 2 {
		t.Errorf("made %d", b.submits)
	}
}

func TestMissedRunsAreSaidOnce(t *testing.T) {
	b := newBench(t, hourly(func(e *Entry) { e.CatchUp = CatchUpAll }))
	b.now = b.now.Add(3*time.Hour + 30*time.Minute)
	b.restart()
	for range 4 {
		b.look()
		b.look()
		b.answer(turnlog.TurnDone, "caught up")
	}
	if b.submits != 4 || b.states() != "done done done done" {
		t.Errorf("made %d, runs %s", b.submits, b.states())
	}
	b.entries[0].CatchUp = CatchUpSkip
	b.now = b.now.Add(5 * time.Hour)
	b.restart()
	b.look()
	b.restart()
	b.look()
	if b.submits != 4 || strings.Count(b.texts(), "5 runs were missed") != 1 {
		t.Errorf("made %d, said %q", b.submits, b.texts())
	}
}

func TestAScheduleThatOnlyFailsIsPaused(t *testing.T) {
	b := newBench(t, hourly(nil))
	for range maxFailures {
		b.pass(time.Hour)
		b.answer(turnlog.TurnFailed, "I could not answer this")
	}
	for range 3 {
		b.pass(time.Hour)
	}
	if b.submits != maxFailures || strings.Count(b.texts(), "is paused") != 1 {
		t.Errorf("made %d, said %q", b.submits, b.texts())
	}
	b.restart()
	b.look()
	if err := b.s.Resume(t.Context(), "report"); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Resume(t.Context(), "report"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("resumed twice: %v", err)
	}
	b.pass(time.Hour)
	if b.submits != maxFailures+1 {
		t.Errorf("made %d after it was resumed", b.submits)
	}
}

func TestAReloadRunsNothingTwice(t *testing.T) {
	b := newBench(t, hourly(nil))
	b.pass(time.Minute)
	b.answer(turnlog.TurnDone, "one")
	other := hourly(func(e *Entry) { e.Timing, e.Next, e.Text = "every 30m", Every(30*time.Minute), "other" })
	b.s.Set([]Entry{other})
	b.look()
	b.pass(10 * time.Minute)
	b.s.Set(b.entries)
	b.look()
	b.s.Set(nil)
	b.look()
	b.now = b.now.Add(20 * time.Hour) // not configured for a while
	b.look()
	b.s.Set(b.entries)
	b.look()
	if b.submits != 1 || b.states() != "done" {
		t.Errorf("made %d, runs %s", b.submits, b.states())
	}
	b.pass(time.Hour)
	if b.submits != 2 {
		t.Errorf("made %d", b.submits)
	}
}

func TestClocksThatAreSet(t *testing.T) {
	b := newBench(t, hourly(nil))
	b.pass(time.Minute)
	b.answer(turnlog.TurnDone, "one")
	for range 3 { // back, and over the same hour again
		b.pass(-30 * time.Minute)
		b.pass(30 * time.Minute)
	}
	if b.submits != 1 {
		t.Fatalf("made %d times", b.submits)
	}
	b.pass(10 * 365 * 24 * time.Hour) // a clock that was far ahead
	if b.submits == 2 {
		b.answer(turnlog.TurnDone, "two")
	}
	made := b.submits
	b.pass(-10 * 365 * 24 * time.Hour)
	b.pass(time.Hour)
	if b.submits != made+1 {
		t.Errorf("made %d times, want %d: it stands still", b.submits, made+1)
	}
}

func TestRunNow(t *testing.T) {
	b := newBench(t, hourly(nil))
	if _, err := b.s.RunNow(t.Context(), "other"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a schedule that is none: %v", err)
	}
	if _, err := b.s.RunNow(t.Context(), "report"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.s.RunNow(t.Context(), "report"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("two at a time: %v", err)
	}
	b.answer(turnlog.TurnDone, "now")
	list, err := b.s.List(t.Context())
	if err != nil || len(list) != 1 || !list[0].Next.Equal(eight) || list[0].Running || len(list[0].Last) != 1 || list[0].Last[0].State != timetable.RunDone {
		t.Errorf("status %+v, %v", list, err)
	}
	if b.texts() != "now" {
		t.Errorf("delivered %q", b.texts())
	}
}

// TestRunNowAtOnce asks for a run before the scheduler has looked for the first time, as somebody may who has just started a host.
func TestRunNowAtOnce(t *testing.T) {
	b := newBench(t)
	b.entries = []Entry{hourly(nil)}
	b.restart()
	if _, err := b.s.RunNow(t.Context(), "report"); err != nil || b.submits != 1 {
		t.Fatalf("submitted %d times, %v", b.submits, err)
	}
	b.answer(turnlog.TurnDone, "now")
	if b.look(); b.texts() != "now" {
		t.Errorf("delivered %q", b.texts())
	}
}

// TestAnyDeath ends the process before or after each of its writes.
func TestAnyDeath(t *testing.T) {
	for n := 1; ; n++ {
		b := newBench(t, hourly(nil))
		writes := 0
		b.broken = func() error {
			if writes++; writes == n {
				return errors.New("the process is dead")
			}
			return nil
		}
		died := false
		step := func(f func() error) {
			if f() != nil {
				died = true
				b.restart()
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}
		}
		look := func() error { _, err := b.s.look(t.Context()); return err }
		b.now = b.now.Add(time.Minute)
		step(look)
		step(look)
		rows, err := b.store.PendingInbox(t.Context())
		if err != nil || len(rows) != 1 {
			t.Fatalf("write %d: %d messages, %v", n, len(rows), err)
		}
		b.turns++
		b.commit(rows[0])
		step(look)
		step(look)
		if b.submits != 1 || b.states() != "done" {
			t.Fatalf("write %d: made %d times, runs %s", n, b.submits, b.states())
		}
		replies, err := b.store.UnsentOutbox(t.Context())
		if err != nil || len(replies) != 2 {
			t.Fatalf("write %d: %d replies, want the turn's and the one that is delivered; %v", n, len(replies), err)
		}
		if !died {
			return
		}
	}
}

func (b *bench) commit(row mailbox.InboxRow) {
	m := row.Message
	t := turnlog.Turn{
		ID: "t1", Session: "schedule:report:main", Agent: "main", Channel: m.Channel, Conversation: m.Conversation, Sender: m.SenderKey(),
		Inbox: []int64{row.ID}, State: turnlog.TurnDone, Started: b.now, Ended: b.now,
	}
	err := b.store.CommitTurn(b.Context(), turnlog.Commit{Turn: t, InboxState: mailbox.InboxDone, Replies: []message.Reply{{
		Key: "t1/0", Channel: m.Channel, Conversation: m.Conversation, Text: "x", Answers: row.ID,
	}}})
	if err != nil {
		b.Fatal(err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	b := newBench(t, hourly(nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.s.Run(ctx) }()
	b.s.Wake()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
