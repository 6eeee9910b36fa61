// Package schedule makes agents run at configured times.
//
// Start with Scheduler.Run and Entry.plan. A run is a message of the channel "schedule" in the durable inbox. Its id is made of the
// schedule's name and the due time, and it is decided about like any other message. A due run is stored before it begins, so that a
// crash neither loses nor repeats one. The package runs no agent.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// Store is the part of the store that a Scheduler uses.
type Store interface {
	timetable.Schedules
	FindInbox(ctx context.Context, channel, eventID string) (mailbox.InboxRow, error)
	History(ctx context.Context, channel, conversation string, turns int) ([]turnlog.Turn, error)
	Replies(ctx context.Context, turn string) ([]mailbox.OutboxRow, error)
	AddReplies(ctx context.Context, turn string, replies []message.Reply) (fresh []message.Reply, err error)
}

// Config configures a Scheduler. All fields but Now are required.
type Config struct {
	Store Store
	// Submit puts a message into the inbox, which keeps each event once.
	Submit func(ctx context.Context, m message.Message) error
	// Replied hands on a committed reply.
	Replied func(turn string, r message.Reply)
	Now     func() time.Time
	Log     *slog.Logger
}

// Scheduler makes the runs of schedules. It is safe for concurrent use.
type Scheduler struct {
	cfg   Config
	reads Reader // cfg.Store, if set
	wake  chan struct{}

	mu      sync.Mutex
	entries map[string]Entry
	known   map[string]timetable.Schedule // nil before the store was read
	open    map[string][]timetable.Run    // Due or Made, oldest first
}

// New returns a scheduler without schedules.
func New(cfg Config) *Scheduler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Scheduler{cfg: cfg, reads: cfg.Store, wake: make(chan struct{}, 1), entries: map[string]Entry{}}
}

// Set replaces the schedules after a change of the configuration. Their stored state is kept.
func (s *Scheduler) Set(entries []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = map[string]Entry{}
	for _, e := range entries {
		s.entries[e.Name] = e
	}
	s.Wake()
}

// Wake makes the scheduler look at once, for example when an answer is ready.
func (s *Scheduler) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

const (
	// longest is the longest time between two looks, after which a changed clock is noticed.
	longest = time.Minute
	// pollRuns is the time between two looks while a run is under way.
	pollRuns = 5 * time.Second
	// clockSlack is how far the clock may be set back before a schedule begins anew. Runs are never repeated in either case.
	clockSlack = 25 * time.Hour
	// retry is the time between two looks after an error of the store.
	retry = 5 * time.Second
)

// Run makes runs until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	for {
		wait, err := s.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.cfg.Log.Error("cannot work on schedules; trying again", "error", err)
			wait = retry
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// look does what is due, and returns how long to wait.
func (s *Scheduler) look(ctx context.Context) (wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return 0, err
	}
	if err := s.forget(ctx); err != nil {
		return 0, err
	}
	wait = longest
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.open)) {
		errs = append(errs, s.settle(ctx, name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.entries)) {
		next, err := s.advance(ctx, s.entries[name])
		if errs = append(errs, err); !next.IsZero() {
			wait = min(wait, max(next.Sub(s.cfg.Now()), 0))
		}
	}
	if len(s.open) > 0 {
		wait = min(wait, pollRuns)
	}
	return wait, errors.Join(errs...)
}

// load reads the store, once.
func (s *Scheduler) load(ctx context.Context) error {
	if s.known != nil {
		return nil
	}
	list, err := s.reads.Schedules(ctx)
	if err != nil {
		return err
	}
	runs, err := s.reads.OpenRuns(ctx)
	if err != nil {
		return err
	}
	s.known, s.open = map[string]timetable.Schedule{}, map[string][]timetable.Run{}
	for _, k := range list {
		s.known[k.Name] = k
	}
	for _, r := range runs {
		s.open[r.Schedule] = append(s.open[r.Schedule], r)
	}
	return nil
}

// forget deletes the state of schedules that are no longer configured. If they are configured again, they begin anew.
func (s *Scheduler) forget(ctx context.Context) error {
	for name := range s.known {
		if _, ok := s.entries[name]; ok {
			continue
		}
		if err := s.cfg.Store.ForgetSchedule(ctx, name); err != nil {
			return err
		}
		delete(s.known, name)
	}
	return nil
}

// advance handles the due times of one schedule, and returns when the next run fires.
func (s *Scheduler) advance(ctx context.Context, e Entry) (next time.Time, err error) {
	now := s.cfg.Now()
	k, ok := s.known[e.Name]
	if ahead := k.Upto.Sub(now); ahead > clockSlack {
		s.cfg.Log.Warn("the clock was set back; the schedule begins anew", "schedule", e.Name, "upto", k.Upto)
		ok = false
	}
	if !ok || k.Timing != e.Timing {
		k.Name, k.Timing, k.Upto = e.Name, e.Timing, now
		if err := s.put(ctx, k, nil); err != nil {
			return now, err
		}
	}
	p := e.plan(k.Upto, now, len(s.open[e.Name]) > 0)
	if k.Paused != "" {
		p.runs = nil
	}
	if !p.upto.Equal(k.Upto) {
		k.Upto = p.upto
		if err := s.put(ctx, k, p.runs); err != nil {
			return now, err
		}
		s.report(ctx, e, p.runs)
	}
	if err := s.begin(ctx, e); err != nil {
		return now, err
	}
	if next = e.Next(k.Upto); next.IsZero() {
		return next, nil
	}
	return e.fires(next), nil
}

// put stores a schedule with runs of it, and caches both.
func (s *Scheduler) put(ctx context.Context, k timetable.Schedule, runs []timetable.Run) error {
	if err := s.cfg.Store.PutSchedule(ctx, k, runs); err != nil {
		return err
	}
	s.known[k.Name] = k
	for _, r := range runs {
		list := s.open[k.Name]
		i := slices.IndexFunc(list, func(o timetable.Run) bool { return o.Event == r.Event })
		open := r.State == timetable.RunDue || r.State == timetable.RunMade
		switch {
		case i >= 0 && open:
			list[i] = r
		case i >= 0:
			list = slices.Delete(list, i, i+1)
		case open:
			list = append(list, r)
		}
		if s.open[k.Name] = list; len(list) == 0 {
			delete(s.open, k.Name)
		}
	}
	return nil
}

// begin hands on the first due run unless another one is under way.
func (s *Scheduler) begin(ctx context.Context, e Entry) error {
	if len(s.open[e.Name]) == 0 || s.open[e.Name][0].State != timetable.RunDue {
		return nil
	}
	r := s.open[e.Name][0]
	if err := s.cfg.Submit(ctx, e.message(r.Event)); err != nil {
		return fmt.Errorf("begin the run %s: %w", r.Event, err)
	}
	r.State, r.At = timetable.RunMade, s.cfg.Now()
	return s.put(ctx, s.known[e.Name], []timetable.Run{r})
}
