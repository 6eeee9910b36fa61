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

// Status is how one schedule is.
type Status struct {
	Entry
	Next     time.Time // when it runs next; zero when never or paused
	Running  bool
	Waiting  int // runs that are due and wait for the one under way
	Failures int
	Paused   string
	Last     []timetable.Run // the latest, or none
}

// List tells how all schedules are, by name.
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
		if st.Last, err = s.reads.ScheduleRuns(ctx, name, 1); err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

// Runs are the last runs of a schedule, latest first.
func (s *Scheduler) Runs(ctx context.Context, name string, limit int) ([]timetable.Run, error) {
	if _, err := s.entry(name); err != nil {
		return nil, err
	}
	return s.reads.ScheduleRuns(ctx, name, limit)
}

func (s *Scheduler) entry(name string) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[name]
	if !ok {
		return e, store.NotFound(fmt.Sprintf("no schedule %q (run \"flynn schedule list\")", name))
	}
	return e, nil
}

// RunNow makes a run besides those that are due, unless one is under way: store.ErrConflict.
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
	if !known { // the host has just started, or been given it
		if _, err := s.advance(ctx, e); err != nil {
			return timetable.Run{}, err
		}
		k = s.known[name]
	}
	if len(s.open[name]) > 0 {
		return timetable.Run{}, store.Conflict(fmt.Sprintf("schedule %q has a run under way", name))
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

// Resume lets a schedule run again that was paused, from now on: store.ErrConflict if it was not.
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
