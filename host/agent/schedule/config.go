package schedule

import (
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/cron"
)

// Entries returns the schedules of a configuration, whose times were checked when it was loaded.
func Entries(c *config.Config) []Entry {
	var out []Entry
	for _, s := range c.Schedules {
		e := Entry{
			Name: s.Name, Agent: s.Agent, Text: s.Text, As: s.As, Deliver: s.Deliver, Quiet: s.Quiet, CatchUp: s.CatchUp,
			Jitter: time.Duration(s.Jitter), Cron: s.Cron, Timezone: s.Timezone, Timing: "every " + s.Every.String(), Next: Every(time.Duration(s.Every)),
		}
		if s.Cron != "" {
			e.Timing, e.Next = timing(s)
		} else {
			e.Every = s.Every.String()
		}
		out = append(out, e)
	}
	return out
}

// timing returns when a cron expression is due in its zone. An unreadable expression or zone is never due.
func timing(s config.Schedule) (text string, next func(time.Time) time.Time) {
	never := func(time.Time) time.Time { return time.Time{} }
	name, zone := "local time", time.Local
	if s.Timezone != "" {
		name = s.Timezone
	}
	text = fmt.Sprintf("%s (%s)", s.Cron, name)
	if s.Timezone != "" {
		var err error
		if zone, err = time.LoadLocation(s.Timezone); err != nil {
			return text, never
		}
	}
	e, err := cron.Parse(s.Cron)
	if err != nil {
		return text, never
	}
	return text, Cron(e, zone)
}
