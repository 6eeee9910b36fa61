package host

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Schedules implements gateway.Schedules.
func (b backend) Schedules(ctx context.Context) ([]gateway.ScheduleStatus, error) {
	list, err := b.h.schedules.List(ctx)
	return scheduleStatuses(list), err
}

// SchedulesAtRest tells how the schedules of a configuration are while no host runs.
func SchedulesAtRest(ctx context.Context, c *config.Config) ([]gateway.ScheduleStatus, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]gateway.ScheduleStatus, error) {
		list, err := schedule.AtRest(ctx, r, schedule.Entries(c), time.Now())
		return scheduleStatuses(list), err
	})
}

// ScheduleRunsAtRest are the last runs of a schedule, latest first, whether a host runs or not.
func ScheduleRunsAtRest(ctx context.Context, c *config.Config, name string, limit int) ([]gateway.ScheduleRun, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]gateway.ScheduleRun, error) {
		runs, err := r.ScheduleRuns(ctx, name, limit)
		return scheduleRuns(runs), err
	})
}

func scheduleStatuses(list []schedule.Status) []gateway.ScheduleStatus {
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

// ScheduleRuns implements gateway.Schedules.
func (b backend) ScheduleRuns(ctx context.Context, name string, limit int) ([]gateway.ScheduleRun, error) {
	runs, err := b.h.schedules.Runs(ctx, name, limit)
	return scheduleRuns(runs), err
}

func scheduleRuns(runs []store.ScheduleRun) []gateway.ScheduleRun {
	out := []gateway.ScheduleRun{}
	for _, r := range runs {
		out = append(out, scheduleRun(r))
	}
	return out
}

// RunSchedule implements gateway.Schedules.
func (b backend) RunSchedule(ctx context.Context, name string) (gateway.ScheduleRun, error) {
	r, err := b.h.schedules.RunNow(ctx, name)
	return scheduleRun(r), err
}

// ResumeSchedule implements gateway.Schedules.
func (b backend) ResumeSchedule(ctx context.Context, name string) error {
	return b.h.schedules.Resume(ctx, name)
}

var _ gateway.Schedules = backend{}

func scheduleRun(r store.ScheduleRun) gateway.ScheduleRun {
	return gateway.ScheduleRun{Event: r.Event, Due: r.Due, State: string(r.State), Count: r.Count, Note: r.Note, At: r.At}
}
