package gateway

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Schedules shows the schedules, changes and runs them. Those that write flynn.toml fail as a reload does, and then change nothing.
type Schedules interface {
	// Schedules lists the schedules that run in the name of a sender, or all if sender is empty.
	Schedules(ctx context.Context, sender message.SenderKey) ([]ScheduleStatus, error)
	// ScheduleRuns are the last runs, latest first; before is the event of the run before which to begin.
	ScheduleRuns(ctx context.Context, name, before string, limit int) ([]ScheduleRun, error)
	// RunSchedule starts a run now, in addition to those that are due.
	RunSchedule(ctx context.Context, name string) (ScheduleRun, error)
	// PauseSchedule keeps a schedule from running until ResumeSchedule.
	PauseSchedule(ctx context.Context, name, why, by string) error
	// ResumeSchedule lets a paused schedule run again.
	ResumeSchedule(ctx context.Context, name string) error
	// AddSchedule adds a schedule to flynn.toml and puts that in force.
	AddSchedule(ctx context.Context, s NewSchedule, by string) (ScheduleStatus, error)
	// ChangeSchedule changes keys of a schedule in flynn.toml and puts that in force.
	ChangeSchedule(ctx context.Context, name string, keys ScheduleKeys, by string) (ScheduleStatus, error)
	// RemoveSchedule removes a schedule from flynn.toml and puts that in force.
	RemoveSchedule(ctx context.Context, name, by string) error
	// PreviewSchedule returns the next due times of a timing.
	PreviewSchedule(timing, zone string) (SchedulePreview, error)
}

// ScheduleKeys are keys of a schedule in flynn.toml; absent ones stay as they are, and an empty one is removed.
type ScheduleKeys struct {
	Agent    *string `json:"agent,omitempty" maxLength:"256" doc:"Who answers; the default agent if it is absent"`
	Cron     *string `json:"cron,omitempty" maxLength:"512" doc:"Minute, hour, day of the month, month and day of the week; this or every"`
	Every    *string `json:"every,omitempty" maxLength:"32" doc:"A time span such as 30m; this or cron"`
	Timezone *string `json:"timezone,omitempty" maxLength:"64" doc:"The zone of cron, such as Europe/Berlin; the machine's if it is absent"`
	Text     *string `json:"text,omitempty" maxLength:"32768" doc:"What the agent gets each time"`
	As       *string `json:"as,omitempty" maxLength:"1024" doc:"The owner or member in whose name it runs; the only owner if it is absent"`
	Deliver  *string `json:"deliver,omitempty" maxLength:"1024" doc:"The conversation that gets the answer, instance:conversation"`
	CatchUp  *string `json:"catch_up,omitempty" enum:"skip,once,all" doc:"Which missed runs are made up for"`
	Jitter   *string `json:"jitter,omitempty" maxLength:"32" doc:"The most that a run is delayed, such as 5m"`
	Quiet    *string `json:"quiet,omitempty" maxLength:"256" doc:"The answer that is not delivered"`
}

// Values returns the keys that are there.
func (k ScheduleKeys) Values() map[string]string {
	out := map[string]string{}
	for key, value := range map[string]*string{
		"agent": k.Agent, "cron": k.Cron, "every": k.Every, "timezone": k.Timezone, "text": k.Text, "as": k.As, "deliver": k.Deliver,
		"catch_up": k.CatchUp, "jitter": k.Jitter, "quiet": k.Quiet,
	} {
		if value != nil {
			out[key] = *value
		}
	}
	return out
}

// NewSchedule is a schedule to add.
type NewSchedule struct {
	Name string `json:"name" minLength:"1" maxLength:"64"`
	ScheduleKeys
}

// SchedulePreview are the next due times of a timing, in its zone.
type SchedulePreview struct {
	Timing string      `json:"timing" doc:"The timing for people, with its zone"`
	Next   []time.Time `json:"next"`
}

// ScheduleStatus is one schedule.
type ScheduleStatus struct {
	Name     string       `json:"name"`
	Agent    string       `json:"agent"`
	Timing   string       `json:"timing"`
	Cron     string       `json:"cron,omitempty"`
	Every    string       `json:"every,omitempty"`
	Timezone string       `json:"timezone,omitempty"`
	As       string       `json:"as"`
	Deliver  string       `json:"deliver,omitempty"`
	Text     string       `json:"text"`
	CatchUp  string       `json:"catch_up"`
	Jitter   string       `json:"jitter,omitempty"`
	Quiet    string       `json:"quiet,omitempty"` // the answer that is not delivered
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
