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
	// RunSchedule starts a run now, in addition to those that are due.
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
	Waiting  int          `json:"waiting"`  // runs that are due and wait for the running one
	Failures int          `json:"failures"` // in a row
	Paused   string       `json:"paused,omitempty"`
	Last     *ScheduleRun `json:"last,omitempty"`
}

// ScheduleRun is one run of a schedule, or several that were missed or skipped together.
type ScheduleRun struct {
	Event string    `json:"event"`
	Due   time.Time `json:"due"`
	State string    `json:"state"` // due, made, done, failed, missed, skipped
	Count int       `json:"count"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
}

// runsLimit bounds the runs in an answer.
const runsLimit = 100

// onSchedule is a handler about the schedule in the path.
func (s *Server) onSchedule(do func(ctx context.Context, name string) (any, error)) http.HandlerFunc {
	return s.get(backendTimeout, func(ctx context.Context, r *http.Request) (any, error) {
		name := r.PathValue("name")
		if !validName(name) {
			return nil, badRequest("name a schedule")
		}
		return do(ctx, name)
	})
}

func (s *Server) listSchedules(ctx context.Context, _ *http.Request) (any, error) {
	list, err := s.backend.Schedules.Schedules(ctx)
	return orEmpty(list), err
}

func (s *Server) scheduleRuns(ctx context.Context, name string) (any, error) {
	runs, err := s.backend.Schedules.ScheduleRuns(ctx, name, runsLimit)
	return orEmpty(runs), err
}

func (s *Server) runSchedule(ctx context.Context, name string) (any, error) {
	return s.backend.Schedules.RunSchedule(ctx, name)
}

func (s *Server) resumeSchedule(ctx context.Context, name string) (any, error) {
	return map[string]bool{"resumed": true}, s.backend.Schedules.ResumeSchedule(ctx, name)
}
