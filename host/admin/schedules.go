package admin

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Schedules returns the schedules of a configuration in the state in which the last host left them.
func Schedules(ctx context.Context, c *config.Config) ([]gateway.ScheduleStatus, error) {
	list, err := read(ctx, c, func(r *sqlstore.Reader) ([]schedule.Status, error) {
		return schedule.AtRest(ctx, r, schedule.Entries(c), time.Now())
	})
	return backend.ScheduleStatuses(list), err
}

// ScheduleRuns returns the last runs of a schedule, latest first. A host may be running.
func ScheduleRuns(ctx context.Context, c *config.Config, name string, limit int) ([]gateway.ScheduleRun, error) {
	runs, err := read(ctx, c, func(r *sqlstore.Reader) ([]timetable.Run, error) { return r.ScheduleRuns(ctx, name, "", limit) })
	return backend.ScheduleRuns(runs), err
}
