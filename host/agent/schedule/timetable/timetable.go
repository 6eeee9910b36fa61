// Package timetable has what is kept of schedules: up to when each has been dealt with, and its runs.
//
// Start with Schedule. Package schedule decides what is due, and package sqlite keeps the rows; this package does neither.
package timetable

import (
	"context"
	"time"
)

// Schedule is what is known of one schedule of the configuration besides what the configuration says.
type Schedule struct {
	Name     string
	Timing   string    // when it is due, as configured; another one begins anew
	Upto     time.Time // what was due up to then has been dealt with
	Failures int       // in a row
	Paused   string    // why it does not run, or ""
}

// RunState is the life of a schedule's run: Due until its message is in the inbox, Made until that is answered.
type RunState string

// States of a run.
const (
	RunDue     RunState = "due"
	RunMade    RunState = "made"
	RunDone    RunState = "done"
	RunFailed  RunState = "failed"
	RunMissed  RunState = "missed"  // nobody was there when it was due
	RunSkipped RunState = "skipped" // another run of the schedule was under way
)

// Run is one time that a schedule was due, or several of which the same is to be said.
type Run struct {
	Schedule string
	Event    string // of its message in the inbox; unique in the schedule
	Due      time.Time
	State    RunState
	Count    int // due times that it stands for, Due being the last of them
	Note     string
	At       time.Time // of its state
}

// Schedules keeps what schedules have done, so that none of it is done twice.
type Schedules interface {
	Schedules(ctx context.Context) ([]Schedule, error)
	// PutSchedule writes a schedule and runs of it in one transaction. A run that is there keeps its count and due time and changes
	// its state; one that has come to its end stays as it is.
	PutSchedule(ctx context.Context, s Schedule, runs []Run) error
	// ForgetSchedule removes a schedule that is no longer configured; its runs stay.
	ForgetSchedule(ctx context.Context, name string) error
	// OpenRuns are those in state Due or Made, oldest first.
	OpenRuns(ctx context.Context) ([]Run, error)
	// ScheduleRuns returns the last runs of a schedule, latest first.
	ScheduleRuns(ctx context.Context, schedule string, limit int) ([]Run, error)
}

// KeepRuns is how many runs of a schedule are kept.
const KeepRuns = 1000
