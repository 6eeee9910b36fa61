package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Schedules are the schedules of the configuration in force and their runs.
type Schedules struct {
	*schedule.Scheduler
	Editor *edit.Editor
}

var _ gateway.Schedules = Schedules{}

// Schedules implements gateway.Schedules.
func (s Schedules) Schedules(ctx context.Context, sender message.SenderKey) ([]gateway.ScheduleStatus, error) {
	list, err := s.List(ctx)
	if sender != "" {
		list = slices.DeleteFunc(list, func(st schedule.Status) bool { return st.As != string(sender) })
	}
	return ScheduleStatuses(list), err
}

// ScheduleRuns implements gateway.Schedules.
func (s Schedules) ScheduleRuns(ctx context.Context, name, before string, limit int) ([]gateway.ScheduleRun, error) {
	runs, err := s.Runs(ctx, name, before, limit)
	return ScheduleRuns(runs), err
}

// RunSchedule implements gateway.Schedules.
func (s Schedules) RunSchedule(ctx context.Context, name string) (gateway.ScheduleRun, error) {
	r, err := s.RunNow(ctx, name)
	return scheduleRun(r), err
}

// PauseSchedule implements gateway.Schedules.
func (s Schedules) PauseSchedule(ctx context.Context, name, why, by string) error {
	return s.Pause(ctx, name, by+": "+why)
}

// ResumeSchedule implements gateway.Schedules.
func (s Schedules) ResumeSchedule(ctx context.Context, name string) error { return s.Resume(ctx, name) }

// AddSchedule implements gateway.Schedules.
func (s Schedules) AddSchedule(ctx context.Context, n gateway.NewSchedule, by string) (gateway.ScheduleStatus, error) {
	err := s.edit(ctx, "add", n.Name, by, func(f *edit.File, c *config.Config) error { return schedule.Add(f, c, n.Name, n.Values()) })
	if err != nil {
		return gateway.ScheduleStatus{}, err
	}
	return s.named(ctx, n.Name)
}

// ChangeSchedule implements gateway.Schedules.
func (s Schedules) ChangeSchedule(ctx context.Context, name string, keys gateway.ScheduleKeys, by string) (gateway.ScheduleStatus, error) {
	if values := keys.Values(); len(values) > 0 {
		err := s.edit(ctx, "change", name, by, func(f *edit.File, c *config.Config) error { return schedule.Change(f, c, name, values) })
		if err != nil {
			return gateway.ScheduleStatus{}, err
		}
	}
	return s.named(ctx, name)
}

// RemoveSchedule implements gateway.Schedules.
func (s Schedules) RemoveSchedule(ctx context.Context, name, by string) error {
	return s.edit(ctx, "remove", name, by, func(f *edit.File, c *config.Config) error { return schedule.Remove(f, c, name) })
}

// edit edits the file for one schedule.
func (s Schedules) edit(ctx context.Context, verb, name, by string, change func(f *edit.File, c *config.Config) error) error {
	_, err := s.Editor.Edit(ctx, edit.Author{By: by, What: verb + " schedule " + name}, change)
	var incomplete schedule.Incomplete
	if errors.As(err, &incomplete) {
		return &gateway.Refusal{Text: err.Error()}
	}
	return gateway.NotEdited(err)
}

// previewed is how many times a preview has.
const previewed = 5

// PreviewSchedule implements gateway.Schedules.
func (s Schedules) PreviewSchedule(timing, zone string) (gateway.SchedulePreview, error) {
	text, due, err := schedule.Preview(timing, zone, time.Now(), previewed)
	if err != nil {
		return gateway.SchedulePreview{}, gateway.BadRequest(err.Error())
	}
	return gateway.SchedulePreview{Timing: text, Next: append([]time.Time{}, due...)}, nil
}

func (s Schedules) named(ctx context.Context, name string) (gateway.ScheduleStatus, error) {
	list, err := s.Schedules(ctx, "")
	if err != nil {
		return gateway.ScheduleStatus{}, err
	}
	for _, st := range list {
		if st.Name == name {
			return st, nil
		}
	}
	return gateway.ScheduleStatus{}, store.NotFound(fmt.Sprintf("no schedule %q", name))
}

// ScheduleStatuses returns schedules as the gateway shows them.
func ScheduleStatuses(list []schedule.Status) []gateway.ScheduleStatus {
	out := []gateway.ScheduleStatus{}
	for _, s := range list {
		st := gateway.ScheduleStatus{
			Name: s.Name, Agent: s.Agent, Timing: s.Timing, Cron: s.Cron, Every: s.Every, Timezone: s.Timezone, As: s.As, Deliver: s.Deliver, Text: s.Text,
			CatchUp: s.CatchUp, Next: s.Next, Running: s.Running, Waiting: s.Waiting, Failures: s.Failures, Paused: s.Paused,
		}
		st.Quiet = s.Quiet
		if s.Jitter > 0 {
			st.Jitter = s.Jitter.String()
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
