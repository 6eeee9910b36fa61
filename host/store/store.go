// Package store has what the durable state has in common: errors, ids, and Store, the sum of all that its consumers ask for.
//
// Start with Store. The rows and the methods belong to the areas whose leaf packages it names; package sqlite implements them all, and
// storetest is the suite that every back end passes. Every method that returns without error has committed to stable storage. The package
// decides nothing.
package store

import (
	"errors"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// ErrNotFound is returned for a row that does not exist.
var ErrNotFound = errors.New("not found in the store")

// ErrPassing is returned for a read that failed for want of something that may come back, such as descriptors or memory, after it was tried
// again for a while.
var ErrPassing = errors.New("the store cannot be read now")

// ErrLocked is the error of opening a store that another flynn has open.
var ErrLocked = errors.New("another flynn is using it")

// ErrConflict is returned when a row is not in the state that the call needs.
var ErrConflict = errors.New("row is in another state")

// Conflict is ErrConflict in words for people.
type Conflict string

func (c Conflict) Error() string { return string(c) }

// Is implements what errors.Is looks for.
func (Conflict) Is(target error) bool { return target == ErrConflict }

// NotFound is ErrNotFound in words for people.
type NotFound string

func (n NotFound) Error() string { return string(n) }

// Is implements what errors.Is looks for.
func (NotFound) Is(target error) bool { return target == ErrNotFound }

// Store is all durable state. Safe for concurrent use.
type Store interface {
	mailbox.Inbox
	mailbox.Earlier
	mailbox.Outbox
	mailbox.Settler
	mailbox.Drafts
	turnlog.Turns
	turnlog.Children
	turnlog.Summaries
	turnlog.Results
	turnlog.Scopes
	turnlog.Archive
	turnlog.Leftovers
	turnlog.Halts
	turnlog.Trails
	memory.Notes
	memory.Extractions
	timetable.Schedules
	consent.Approvals
	consent.Grants
	consent.Elevations
	consent.Audit
	pairings.Store
	journal.Decisions
	journal.Changes
	journal.Shadows
	usage.Log
	egress.Records
	Values
	Owners
	Pruning
	Close() error
}
