package schedule

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
)

// Reader reads the stored state of schedules.
type Reader interface {
	Schedules(ctx context.Context) ([]timetable.Schedule, error)
	OpenRuns(ctx context.Context) ([]timetable.Run, error)
	ScheduleRuns(ctx context.Context, schedule, before string, limit int) ([]timetable.Run, error)
}

// AtRest returns the state of schedules while no host runs: the next due times, and no run under way. Missed runs are found when a host
// starts.
func AtRest(ctx context.Context, from Reader, entries []Entry, now time.Time) ([]Status, error) {
	s := New(Config{Now: func() time.Time { return now }})
	s.reads = from
	s.Set(entries)
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	list, err := s.List(ctx)
	for i := range list {
		st := &list[i]
		if st.Running {
			st.Running, st.Waiting = false, st.Waiting+1
		}
		if st.Next.Before(now) && st.Paused == "" {
			st.Next = time.Time{}
			if next := st.Entry.Next(now); !next.IsZero() {
				st.Next = st.fires(next)
			}
		}
	}
	return list, err
}
