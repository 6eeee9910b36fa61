// Package timetable defines the stored state of schedules and their runs.
//
// Start with Schedule. Package schedule decides what is due, and package sqlite stores the rows; this package does neither.
package timetable

import (
	"context"
	"time"
)

// Schedule is the stored state of one schedule.
type Schedule struct {
	Name     string
	Timing   string    // the configured times; if they change, the schedule begins anew
	Upto     time.Time // due times up to then have been handled
	Failures int       // in a row
	Paused   string    // why it does not run, or ""
}

// RunState is the state of a schedule's run: Due until its message is in the inbox, Made until that is answered.
type RunState string

// States of a run.
const (
	RunDue     RunState = "due"
	RunMade    RunState = "made"
	RunDone    RunState = "done"
	RunFailed  RunState = "failed"
	RunMissed  RunState = "missed"  // no host ran when it was due
	RunSkipped RunState = "skipped" // another run of the schedule was under way
)

// Run is one due time of a schedule, or several with the same outcome.
type Run struct {
	Schedule string
	Event    string // of its message in the inbox; unique within the schedule
	Due      time.Time
	State    RunState
	Count    int // number of due times; Due is the last of them
	Note     string
	At       time.Time // when it reached its state
}

// Schedules stores the state of schedules, so that no run is repeated.
type Schedules interface {
	Schedules(ctx context.Context) ([]Schedule, error)
	// PutSchedule writes a schedule and some of its runs in one transaction. A run that is stored already keeps its count and due time
	// and changes its state; an ended run does not change.
	PutSchedule(ctx context.Context, s Schedule, runs []Run) error
	// ForgetSchedule removes a schedule that is no longer configured. Its runs stay.
	ForgetSchedule(ctx context.Context, name string) error
	// OpenRuns returns the runs in state Due or Made, oldest first.
	OpenRuns(ctx context.Context) ([]Run, error)
	// ScheduleRuns returns the last runs of a schedule, latest first; with before only those that were stored before the run with that
	// event.
	ScheduleRuns(ctx context.Context, schedule, before string, limit int) ([]Run, error)
}

// KeepRuns is how many runs of a schedule are kept.
const KeepRuns = 1000
