package schedule

import (
	"errors"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// Preview returns the next due times of a timing: five fields as in crontab(5), in the zone, or a time span such as 30m. An empty zone is
// this machine's.
func Preview(timing, zone string, after time.Time, n int) (text string, due []time.Time, err error) {
	s := config.Schedule{Cron: timing, Timezone: zone}
	if span := strings.TrimSpace(strings.TrimPrefix(timing, "every ")); len(strings.Fields(timing)) < 5 {
		s.Cron = ""
		if err := s.Every.UnmarshalText([]byte(span)); err != nil {
			return "", nil, errors.New(`write five fields such as "0 7 * * 1-5", or a time span such as "30m"`)
		}
	}
	if faults := s.TimingFaults(); len(faults) > 0 {
		return "", nil, errors.New(faults[0].Problem + " (" + faults[0].Hint + ")")
	}
	e := Entries(&config.Config{Schedules: []config.Schedule{s}})[0]
	for at := e.Next(after); !at.IsZero() && len(due) < n; at = e.Next(at) {
		due = append(due, at)
	}
	return e.Timing, due, nil
}
