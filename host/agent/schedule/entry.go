package schedule

import (
	"hash/fnv"
	"time"

	"github.com/flynnhost/flynn/host/internal/cron"
	"github.com/flynnhost/flynn/host/message"
)

// Entry is one configured schedule.
type Entry struct {
	Name, Agent, Text     string
	As                    string // the sender on whose behalf it runs, "instance:platform-id"
	Deliver               string // "instance:conversation-id", or ""
	Quiet                 string // the answer that means nothing to report
	CatchUp               string
	Jitter                time.Duration
	Cron, Every, Timezone string // as written
	// Timing describes the due times to people. If it changes, the schedule begins anew.
	Timing string
	// Next returns the first due time after the given one, or the zero time.
	Next func(after time.Time) time.Time
}

// Values of Entry.CatchUp: what happens to due times that passed while no host ran.
const (
	CatchUpSkip = "skip" // they are skipped
	CatchUpOnce = "once" // the last one is run
	CatchUpAll  = "all"  // the last maxCatchUp are run, one after the other
)

// Cron returns the due times of an expression in a time zone.
func Cron(e cron.Expression, zone *time.Location) func(time.Time) time.Time {
	return func(after time.Time) time.Time { return e.Next(after.In(zone)) }
}

// Every returns due times at multiples of span since 1970, so that they stay the same after a restart.
func Every(span time.Duration) func(time.Time) time.Time {
	return func(after time.Time) time.Time {
		n := after.UnixNano() / int64(span)
		return time.Unix(0, (n+1)*int64(span)).In(after.Location())
	}
}

// fires returns when the run of a due time begins. The jitter of a due time is the same in every process.
func (e Entry) fires(due time.Time) time.Time {
	if e.Jitter <= 0 {
		return due
	}
	h := fnv.New64a()
	h.Write([]byte(e.event(due)))
	return due.Add(time.Duration(h.Sum64() % uint64(e.Jitter)))
}

// event returns the inbox id of a due time's message.
func (e Entry) event(due time.Time) string { return e.Name + "@" + due.UTC().Format(time.RFC3339) }

// message returns the message of a run. It is admitted, routed and answered like any other, with the rights of its sender.
func (e Entry) message(event string) message.Message {
	return message.Message{
		Channel: message.ScheduleChannel, EventID: event, Conversation: message.Conversation{ID: e.Name, Kind: message.DM},
		Sender: message.Sender{ID: e.As}, Text: e.Text, Addressed: true, Agent: e.Agent,
	}
}
