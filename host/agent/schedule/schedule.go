// Package schedule has agents answer by themselves, at the times that the configuration names.
//
// Start with Scheduler.Run and Entry.plan. A run is a message of the door "schedule" in the durable inbox, with an id made of the
// schedule and its due time; everything that decides about messages decides about it. What is due is written down before it is
// done, so that a process that dies leaves nothing undone and the next one does nothing twice. The package runs no agent.
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

// Store is the part of the store that a Scheduler works with.
type Store interface {
	timetable.Schedules
	FindInbox(ctx context.Context, channel, eventID string) (mailbox.InboxRow, error)
	History(ctx context.Context, channel, conversation string, turns int) ([]turnlog.Turn, error)
	Replies(ctx context.Context, turn string) ([]mailbox.OutboxRow, error)
	AddReplies(ctx context.Context, turn string, replies []message.Reply) (fresh []message.Reply, err error)
}

// Config is what a Scheduler needs. All of it but Now is required.
type Config struct {
	Store Store
	// Submit puts a message into the inbox, which keeps each event once.
	Submit func(ctx context.Context, m message.Message) error
	// Replied hands on a reply that was committed.
	Replied func(turn string, r message.Reply)
	Now     func() time.Time
	Log     *slog.Logger
}

// Scheduler makes the runs of schedules. Safe for concurrent use.
type Scheduler struct {
	cfg   Config
	reads Reader // the Store of cfg, where there is one
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

// Set replaces the schedules, as a new configuration does. What a schedule has done stays done.
func (s *Scheduler) Set(entries []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = map[string]Entry{}
	for _, e := range entries {
		s.entries[e.Name] = e
	}
	s.Wake()
}

// Wake has the scheduler look at once, as when an answer is ready.
func (s *Scheduler) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

const (
	// longest is the time between two looks: a clock that is set is noticed after that.
	longest = time.Minute
	// pollRuns is the same while a run is under way.
	pollRuns = 5 * time.Second
	// clockSlack is how far a clock may be set back for which the schedule just waits; what it has run is not run again in any case.
	clockSlack = 25 * time.Hour
	// retry is the same after trouble with the store.
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
			s.cfg.Log.Error("schedules; trying again", "error", err)
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

// look does what there is to do, and tells how long there is nothing.
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

// forget drops what is no longer configured. Were it configured again, it would begin anew.
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

// advance deals with what is due of one schedule, and returns when the next run fires.
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

// put writes a schedule with runs of it, and remembers both.
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

// begin hands on the first run that is due, when no other one is under way: they are never two at a time.
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
