package gateway

import (
	"context"
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
