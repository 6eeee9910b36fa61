package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
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

// SchedulesAtRest tells how the schedules of a configuration are while no host runs.
func SchedulesAtRest(ctx context.Context, c *config.Config) ([]gateway.ScheduleStatus, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]gateway.ScheduleStatus, error) {
		list, err := schedule.AtRest(ctx, r, scheduled(c), time.Now())
		return backend.ScheduleStatuses(list), err
	})
}

// ScheduleRunsAtRest are the last runs of a schedule, latest first, whether a host runs or not.
func ScheduleRunsAtRest(ctx context.Context, c *config.Config, name string, limit int) ([]gateway.ScheduleRun, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]gateway.ScheduleRun, error) {
		runs, err := r.ScheduleRuns(ctx, name, limit)
		return backend.ScheduleRuns(runs), err
	})
}

// delivery is where people hear of a schedule's turn, as a list of one or none: none where they are told there already.
func delivery(c *config.Config, t store.Turn, told []string) []string {
	for _, s := range c.Schedules {
		if t.Channel == message.ScheduleDoor && t.Conversation.ID == s.Name && s.Deliver != "" && !slices.Contains(told, s.Deliver) {
			return []string{s.Deliver}
		}
	}
	return nil
}
