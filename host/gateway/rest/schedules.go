package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/gateway"
)

// schedules shows the schedules and runs them.
type schedules struct{ gateway.Schedules }

// ByName is the path of a thing with a name.
type ByName struct {
	Name string `path:"name" minLength:"1" maxLength:"256"`
}

func (s schedules) register(r *registrar) {
	const subject = "Schedules"
	add(r, Operation{ID: "list-schedules", Method: http.MethodGet, Path: "/schedules", Subject: subject, Least: owner, Summary: "All schedules"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.ScheduleStatus, error) {
			return orEmpty(s.Schedules.Schedules(ctx))
		})
	type runs struct {
		ByName
		Paging
	}
	add(r, Operation{ID: "list-runs", Method: http.MethodGet, Path: "/schedules/{name}/runs", Subject: subject, Least: owner, Summary: "The last runs of a schedule, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *runs) (gateway.Page[gateway.ScheduleRun], error) {
			list, err := s.ScheduleRuns(ctx, in.Name, timetable.KeepRuns)
			return paged(list, in.Paging, func(v gateway.ScheduleRun) string { return position(v.Due, v.Event) }), err
		})
	add(r, Operation{ID: "run-schedule", Method: http.MethodPost, Path: "/schedules/{name}/runs", Subject: subject, Least: owner, Summary: "Start a run now, besides those that are due"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) (gateway.ScheduleRun, error) {
			return s.RunSchedule(ctx, in.Name)
		})
	act(r, Operation{ID: "resume-schedule", Method: http.MethodPost, Path: "/schedules/{name}/resume", Subject: subject, Least: owner, Summary: "Let a paused schedule run again"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) error {
			return s.ResumeSchedule(ctx, in.Name)
		})
}

// orEmpty makes an empty list [] and not null.
func orEmpty[T any](list []T, err error) ([]T, error) {
	if list == nil {
		list = []T{}
	}
	return list, err
}
