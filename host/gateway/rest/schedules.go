package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// schedules shows the schedules, changes them and runs them.
type schedules struct{ gateway.Schedules }

// ByName is the path of a thing with a name.
type ByName struct {
	Name string `path:"name" minLength:"1" maxLength:"256"`
}

// editTimeout bounds an operation that writes flynn.toml and has the host take it up.
const editTimeout = 25 * time.Second

func (s schedules) register(r *registrar) {
	const subject = "Schedules"
	add(r, Operation{ID: "list-schedules", Method: http.MethodGet, Path: "/schedules", Subject: subject, Least: owner, Summary: "All schedules"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.ScheduleStatus, error) {
			return orEmpty(s.Schedules.Schedules(ctx, ""))
		})
	type timing struct {
		Timing string `query:"timing" required:"true" minLength:"1" maxLength:"512" doc:"Five fields as in crontab(5), or a time span such as 30m"`
		Zone   string `query:"zone" maxLength:"64" doc:"The zone of the five fields, such as Europe/Berlin; the machine's if it is absent"`
	}
	add(r, Operation{ID: "preview-schedule", Method: http.MethodGet, Path: "/schedules/preview", Subject: subject, Least: owner,
		Summary: "The next times of a timing"},
		func(_ context.Context, _ gateway.Caller, in *timing) (gateway.SchedulePreview, error) {
			return s.PreviewSchedule(in.Timing, in.Zone)
		})
	type runs struct {
		ByName
		Paging
	}
	add(r, Operation{ID: "list-runs", Method: http.MethodGet, Path: "/schedules/{name}/runs", Subject: subject, Least: owner,
		Summary: "The last runs of a schedule, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *runs) (gateway.Page[gateway.ScheduleRun], error) {
			list, err := s.ScheduleRuns(ctx, in.Name, in.Cursor, in.Limit+1)
			return gateway.PageOf(list, in.Limit, func(r gateway.ScheduleRun) string { return r.Event }), err
		})
	add(r, Operation{ID: "run-schedule", Method: http.MethodPost, Path: "/schedules/{name}/runs", Subject: subject, Least: owner,
		Summary: "Start a run now, besides those that are due"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) (gateway.ScheduleRun, error) {
			return s.RunSchedule(ctx, in.Name)
		})
	s.changes(r, subject)
}

// changes registers the operations that change schedules.
func (s schedules) changes(r *registrar, subject string) {
	type fresh struct{ Body gateway.NewSchedule }
	add(r, Operation{ID: "add-schedule", Method: http.MethodPost, Path: "/schedules", Subject: subject, Least: owner,
		Status: http.StatusCreated, Timeout: editTimeout,
		Body: 256 << 10, Summary: "Add a schedule to flynn.toml, and put it in force"},
		func(ctx context.Context, by gateway.Caller, in *fresh) (gateway.ScheduleStatus, error) {
			return s.AddSchedule(ctx, in.Body, string(by.Sender))
		})
	type change struct {
		ByName
		Body struct {
			Paused *bool  `json:"paused,omitempty" doc:"true pauses it, also over restarts; false lets it run again"`
			Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why it is paused"`
			gateway.ScheduleKeys
		}
	}
	add(r, Operation{ID: "change-schedule", Method: http.MethodPatch, Path: "/schedules/{name}", Subject: subject, Least: owner,
		Timeout: editTimeout, Body: 256 << 10, Summary: "Pause or resume a schedule, or change its keys in flynn.toml"},
		func(ctx context.Context, by gateway.Caller, in *change) (gateway.ScheduleStatus, error) {
			b := in.Body
			pauses := b.Paused != nil && *b.Paused
			if pauses == (b.Reason == "") { // one without the other
				return gateway.ScheduleStatus{}, gateway.BadRequest(`a pause has a reason: {"paused":true,"reason":"..."}`)
			}
			if len(b.Values()) == 0 && b.Paused == nil {
				return gateway.ScheduleStatus{}, gateway.BadRequest("say what to change")
			}
			if _, err := s.ChangeSchedule(ctx, in.Name, b.ScheduleKeys, string(by.Sender)); err != nil {
				return gateway.ScheduleStatus{}, err
			}
			var err error
			switch {
			case pauses:
				err = s.PauseSchedule(ctx, in.Name, b.Reason, string(by.Sender))
			case b.Paused != nil:
				err = s.ResumeSchedule(ctx, in.Name)
			}
			if err != nil {
				return gateway.ScheduleStatus{}, err
			}
			return s.ChangeSchedule(ctx, in.Name, gateway.ScheduleKeys{}, "") // as it is now
		})
	act(r, Operation{ID: "remove-schedule", Method: http.MethodDelete, Path: "/schedules/{name}", Subject: subject, Least: owner, Timeout: editTimeout,
		Summary: "Remove a schedule from flynn.toml; its history stays until it is forgotten"},
		func(ctx context.Context, by gateway.Caller, in *ByName) error {
			return s.RemoveSchedule(ctx, in.Name, string(by.Sender))
		})
}

// orEmpty makes an empty list [] and not null.
func orEmpty[T any](list []T, err error) ([]T, error) {
	if list == nil {
		list = []T{}
	}
	return list, err
}
