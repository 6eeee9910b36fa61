package schedule

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
)

// Reader is what is kept of schedules, to be read.
type Reader interface {
	Schedules(ctx context.Context) ([]timetable.Schedule, error)
	OpenRuns(ctx context.Context) ([]timetable.Run, error)
	ScheduleRuns(ctx context.Context, schedule string, limit int) ([]timetable.Run, error)
}

// AtRest tells how schedules are while no host runs: what is due next from now on, and nothing is under way. What was missed is found when
// a host starts.
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
