package host

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/cron"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// newScheduler makes the scheduler with the schedules of a configuration.
func (h *Host) newScheduler(c *config.Config) *schedule.Scheduler {
	s := schedule.New(schedule.Config{
		Store: h.store, Log: h.log, Replied: h.outbox.Push,
		Submit: func(ctx context.Context, m message.Message) error { return h.inbox.Accept(ctx, m) },
	})
	s.Set(scheduled(c))
	return s
}

// replied hands on a turn's reply, and has the scheduler look when it is one of its own.
func (h *Host) replied(turn string, r message.Reply) {
	h.outbox.Push(turn, r)
	if r.Channel == message.ScheduleDoor {
		h.schedules.Wake()
	}
}

// scheduled are the schedules of a configuration, whose times were checked when it was loaded.
func scheduled(c *config.Config) []schedule.Entry {
	var out []schedule.Entry
	for _, s := range c.Schedules {
		e := schedule.Entry{
			Name: s.Name, Agent: s.Agent, Text: s.Text, As: s.As, Deliver: s.Deliver, Quiet: s.Quiet, CatchUp: s.CatchUp,
			Jitter: time.Duration(s.Jitter), Timing: "every " + s.Every.String(), Next: schedule.Every(time.Duration(s.Every)),
		}
		if s.Cron != "" {
			e.Timing, e.Next = timing(s)
		}
		out = append(out, e)
	}
	return out
}

// timing is when a cron expression is due in its zone. One that is no longer what the check has seen is never due.
func timing(s config.Schedule) (text string, next func(time.Time) time.Time) {
	zone := time.Local
	text = fmt.Sprintf("%s (%s)", s.Cron, "local time")
	if s.Timezone != "" {
		text = fmt.Sprintf("%s (%s)", s.Cron, s.Timezone)
		named, err := time.LoadLocation(s.Timezone)
		if err != nil {
			return text, func(time.Time) time.Time { return time.Time{} }
		}
		zone = named
	}
	e, err := cron.Parse(s.Cron)
	if err != nil {
		return text, func(time.Time) time.Time { return time.Time{} }
	}
	return text, schedule.Cron(e, zone)
}

// Schedules implements gateway.Schedules.
func (b backend) Schedules(ctx context.Context) ([]gateway.ScheduleStatus, error) {
	list, err := b.h.schedules.List(ctx)
	return scheduleStatuses(list), err
}

// SchedulesAtRest tells how the schedules of a configuration are while no host runs.
func SchedulesAtRest(ctx context.Context, c *config.Config) ([]gateway.ScheduleStatus, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]gateway.ScheduleStatus, error) {
		list, err := schedule.AtRest(ctx, r, scheduled(c), time.Now())
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
