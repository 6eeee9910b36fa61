package backend

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/gateway"
)

// Schedules are the schedules of the configuration in force and their runs.
type Schedules struct{ *schedule.Scheduler }

var _ gateway.Schedules = Schedules{}

// Schedules implements gateway.Schedules.
func (s Schedules) Schedules(ctx context.Context) ([]gateway.ScheduleStatus, error) {
	list, err := s.List(ctx)
	return ScheduleStatuses(list), err
}

// ScheduleRuns implements gateway.Schedules.
func (s Schedules) ScheduleRuns(ctx context.Context, name string, limit int) ([]gateway.ScheduleRun, error) {
	runs, err := s.Runs(ctx, name, limit)
	return ScheduleRuns(runs), err
}

// RunSchedule implements gateway.Schedules.
func (s Schedules) RunSchedule(ctx context.Context, name string) (gateway.ScheduleRun, error) {
	r, err := s.RunNow(ctx, name)
	return scheduleRun(r), err
}

// ResumeSchedule implements gateway.Schedules.
func (s Schedules) ResumeSchedule(ctx context.Context, name string) error { return s.Resume(ctx, name) }

// ScheduleStatuses returns schedules as the gateway shows them.
func ScheduleStatuses(list []schedule.Status) []gateway.ScheduleStatus {
	out := []gateway.ScheduleStatus{}
	for _, s := range list {
		st := gateway.ScheduleStatus{
			Name: s.Name, Agent: s.Agent, Timing: s.Timing, As: s.As, Deliver: s.Deliver, Text: s.Text, CatchUp: s.CatchUp,
			Next: s.Next, Running: s.Running, Waiting: s.Waiting, Failures: s.Failures, Paused: s.Paused,
		}
		if len(s.Last) > 0 {
			last := scheduleRun(s.Last[0])
			st.Last = &last
		}
		out = append(out, st)
	}
	return out
}

// ScheduleRuns returns runs of a schedule as the gateway shows them.
func ScheduleRuns(runs []timetable.Run) []gateway.ScheduleRun {
	out := []gateway.ScheduleRun{}
	for _, r := range runs {
		out = append(out, scheduleRun(r))
	}
	return out
}

func scheduleRun(r timetable.Run) gateway.ScheduleRun {
	return gateway.ScheduleRun{Event: r.Event, Due: r.Due, State: string(r.State), Count: r.Count, Note: r.Note, At: r.At}
}
