package schedule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/store"
)

// Status is the state of one schedule.
type Status struct {
	Entry
	Next     time.Time // the next run; zero if never or paused
	Running  bool
	Waiting  int // runs that are due and wait for the current one
	Failures int
	Paused   string
	Last     []timetable.Run // the latest run, if any
}

// List returns the state of all schedules, by name.
func (s *Scheduler) List(ctx context.Context) ([]Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Status
	for _, name := range slices.Sorted(maps.Keys(s.entries)) {
		e, k := s.entries[name], s.known[name]
		st := Status{Entry: e, Failures: k.Failures, Paused: k.Paused}
		from := k.Upto
		if from.IsZero() {
			from = s.cfg.Now()
		}
		if next := e.Next(from); !next.IsZero() && k.Paused == "" {
			st.Next = e.fires(next)
		}
		for _, r := range s.open[name] {
			if r.State == timetable.RunMade {
				st.Running = true
			} else {
				st.Waiting++
			}
		}
		var err error
		if st.Last, err = s.reads.ScheduleRuns(ctx, name, "", 1); err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

// Runs returns the last runs of a schedule, latest first, from the one before the given event on.
func (s *Scheduler) Runs(ctx context.Context, name, before string, limit int) ([]timetable.Run, error) {
	if _, err := s.entry(name); err != nil {
		return nil, err
	}
	return s.reads.ScheduleRuns(ctx, name, before, limit)
}

func (s *Scheduler) entry(name string) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[name]
	if !ok {
		return e, notFound(name)
	}
	return e, nil
}

// RunNow makes a run at once. It returns store.ErrConflict if one is under way.
func (s *Scheduler) RunNow(ctx context.Context, name string) (timetable.Run, error) {
	e, err := s.entry(name)
	if err != nil {
		return timetable.Run{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return timetable.Run{}, err
	}
	k, known := s.known[name]
	if !known { // the host has just started, or the schedule is new
		if _, err := s.advance(ctx, e); err != nil {
			return timetable.Run{}, err
		}
		k = s.known[name]
	}
	if len(s.open[name]) > 0 {
		return timetable.Run{}, store.Conflict(fmt.Sprintf("schedule %q is running already", name))
	}
	now := s.cfg.Now()
	r := timetable.Run{
		Schedule: name, Event: name + "@now/" + store.NewID(now), Due: now, State: timetable.RunDue, Count: 1, Note: "asked for", At: now,
	}
	if err := s.put(ctx, k, []timetable.Run{r}); err != nil {
		return timetable.Run{}, err
	}
	if err := s.begin(ctx, e); err != nil {
		return timetable.Run{}, err
	}
	s.Wake()
	return r, nil
}

// Pause keeps a schedule from running until it is resumed. Runs that are due and have not begun are skipped; one under way ends by itself. It
// returns store.ErrConflict if the schedule is paused already.
func (s *Scheduler) Pause(ctx context.Context, name, why string) error {
	e, err := s.entry(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return err
	}
	if _, known := s.known[name]; !known { // the host has just started, or the schedule is new
		if _, err := s.advance(ctx, e); err != nil {
			return err
		}
	}
	k := s.known[name]
	if k.Paused != "" {
		return store.Conflict(fmt.Sprintf("schedule %q is paused already: %s", name, k.Paused))
	}
	k.Paused = why
	var skipped []timetable.Run
	for _, r := range s.open[name] {
		if r.State == timetable.RunDue {
			r.State, r.Note, r.At = timetable.RunSkipped, "the schedule was paused", s.cfg.Now()
			skipped = append(skipped, r)
		}
	}
	err = s.put(ctx, k, skipped)
	s.Wake()
	return err
}

// Resume continues a paused schedule from now on. It returns store.ErrConflict if the schedule is not paused.
func (s *Scheduler) Resume(ctx context.Context, name string) error {
	if _, err := s.entry(name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return err
	}
	k := s.known[name]
	if k.Paused == "" {
		return store.Conflict(fmt.Sprintf("schedule %q is not paused", name))
	}
	k.Paused, k.Failures = "", 0
	err := s.put(ctx, k, nil)
	s.Wake()
	return err
}
