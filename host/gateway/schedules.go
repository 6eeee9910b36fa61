package gateway

import (
	"context"
	"net/http"
	"time"
)

// Schedules shows the schedules and runs them.
type Schedules interface {
	Schedules(ctx context.Context) ([]ScheduleStatus, error)
	// ScheduleRuns are the last runs, latest first.
	ScheduleRuns(ctx context.Context, name string, limit int) ([]ScheduleRun, error)
	// RunSchedule makes a run now, besides those that are due.
	RunSchedule(ctx context.Context, name string) (ScheduleRun, error)
	// ResumeSchedule lets a paused schedule run again.
	ResumeSchedule(ctx context.Context, name string) error
}

// ScheduleStatus is one schedule.
type ScheduleStatus struct {
	Name     string       `json:"name"`
	Agent    string       `json:"agent"`
	Timing   string       `json:"timing"`
	As       string       `json:"as"`
	Deliver  string       `json:"deliver,omitempty"`
	Text     string       `json:"text"`
	CatchUp  string       `json:"catch_up"`
	Next     time.Time    `json:"next,omitzero"`
	Running  bool         `json:"running"`
	Waiting  int          `json:"waiting"`  // runs that are due and wait for the one under way
	Failures int          `json:"failures"` // in a row
	Paused   string       `json:"paused,omitempty"`
	Last     *ScheduleRun `json:"last,omitempty"`
}

// ScheduleRun is one time that a schedule was due, or several that were missed or skipped together.
type ScheduleRun struct {
	Event string    `json:"event"`
	Due   time.Time `json:"due"`
	State string    `json:"state"` // due, made, done, failed, missed, skipped
	Count int       `json:"count"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
}

// runsLimit is how many runs are shown.
const runsLimit = 100

// schedules wraps a handler of the backend's schedules.
func (s *Server) schedules(use func(context.Context, Schedules, string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if name != "" && !validName(name) {
			writeError(w, http.StatusBadRequest, CodeBadRequest, "name a schedule")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
		defer cancel()
		v, err := use(ctx, s.backend.Schedules, name)
		s.answer(w, v, err)
	}
}

func listSchedules(ctx context.Context, b Schedules, _ string) (any, error) {
	list, err := b.Schedules(ctx)
	return orEmpty(list), err
}

func scheduleRuns(ctx context.Context, b Schedules, name string) (any, error) {
	runs, err := b.ScheduleRuns(ctx, name, runsLimit)
	return orEmpty(runs), err
}

func runSchedule(ctx context.Context, b Schedules, name string) (any, error) {
	return b.RunSchedule(ctx, name)
}

func resumeSchedule(ctx context.Context, b Schedules, name string) (any, error) {
	return map[string]bool{"resumed": true}, b.ResumeSchedule(ctx, name)
}
