package gateway

import (
	"time"

	"github.com/flynnhost/flynn/host/observe/hostlog"
)

// Logs are the last records of the host's log.
type Logs interface {
	Records(f hostlog.Filter) []hostlog.Record
	// Repeats returns the warnings and errors that were logged at least so many times since a time.
	Repeats(since time.Time, least int) []hostlog.Repeat
}
