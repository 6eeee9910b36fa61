package schedule

import (
	"hash/fnv"
	"time"

	"github.com/flynnhost/flynn/host/internal/cron"
	"github.com/flynnhost/flynn/host/message"
)

// Entry is one schedule as it is configured.
type Entry struct {
	Name, Agent, Text string
	As                string // the sender in whose name it runs, "instance:platform-id"
	Deliver           string // "instance:conversation-id", or ""
	Quiet             string // the answer that is not delivered
	CatchUp           string
	Jitter            time.Duration
	// Timing tells when it is due, for people; one that differs makes another schedule of it.
	Timing string
	// Next is the first due time after another one, or the zero time.
	Next func(after time.Time) time.Time
}

// Values of Entry.CatchUp: how due times are made up for at which no host ran.
const (
	CatchUpSkip = "skip" // nothing
	CatchUpOnce = "once" // the last of them is made up for
	CatchUpAll  = "all"  // the last maxCatchUp of them are, one after the other
)

// Cron tells when an expression is due by the clocks of a zone.
func Cron(e cron.Expression, zone *time.Location) func(time.Time) time.Time {
	return func(after time.Time) time.Time { return e.Next(after.In(zone)) }
}

// Every is due whenever a span has passed, counted from the beginning of 1970, so that it is the same after a restart.
func Every(span time.Duration) func(time.Time) time.Time {
	return func(after time.Time) time.Time {
		n := after.UnixNano() / int64(span)
		return time.Unix(0, (n+1)*int64(span)).In(after.Location())
	}
}

// fires is when a due time's run begins. The same due time has the same jitter in every process.
func (e Entry) fires(due time.Time) time.Time {
	if e.Jitter <= 0 {
		return due
	}
	h := fnv.New64a()
	h.Write([]byte(e.event(due)))
	return due.Add(time.Duration(h.Sum64() % uint64(e.Jitter)))
}

// event is the id of a due time's message in the inbox.
func (e Entry) event(due time.Time) string { return e.Name + "@" + due.UTC().Format(time.RFC3339) }

// message is a run as the inbox gets it: it is admitted, routed and answered like what anybody says, with the rights of its sender.
func (e Entry) message(event string) message.Message {
	return message.Message{
		Channel: message.ScheduleChannel, EventID: event, Conversation: message.Conversation{ID: e.Name, Kind: message.DM},
		Sender: message.Sender{ID: e.As}, Text: e.Text, Addressed: true, Agent: e.Agent,
	}
}
