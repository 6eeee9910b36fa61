// Package store defines the common parts of the durable state: errors, ids, and Store, the sum of its consumers' interfaces.
//
// Start with Store. The rows and methods belong to the areas whose leaf packages it names; package sqlite implements them all, and
// package storetest is the suite that every back end passes. A method that returns without error has committed to stable storage. The
// package decides nothing.
package store

import (
	"errors"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/access/signins"
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

// ErrPassing is returned for a read that failed, after retries, for a temporary lack of resources such as descriptors or memory.
var ErrPassing = errors.New("the store is temporarily unreadable")

// ErrLocked is returned for a store that another Flynn process has open.
var ErrLocked = errors.New("another flynn is using it")

// ErrConflict is returned if a row is not in the state that the call needs.
var ErrConflict = errors.New("row is in another state")

// Conflict is an ErrConflict with a text for people.
type Conflict string

func (c Conflict) Error() string { return string(c) }

// Is implements what errors.Is looks for.
func (Conflict) Is(target error) bool { return target == ErrConflict }

// NotFound is an ErrNotFound with a text for people.
type NotFound string

func (n NotFound) Error() string { return string(n) }

// Is implements what errors.Is looks for.
func (NotFound) Is(target error) bool { return target == ErrNotFound }

// Store is all durable state. It is safe for concurrent use.
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
	turnlog.Talk
	turnlog.Own
	turnlog.Lists
	memory.Notes
	memory.Extractions
	timetable.Schedules
	consent.Approvals
	consent.Grants
	consent.Elevations
	consent.Audit
	pairings.Store
	signins.Store
	journal.Decisions
	journal.Changes
	journal.Shadows
	usage.Log
	egress.Records
	Journal
	KeyedWrites
	Values
	Owners
	SandboxRecords
	Parts
	Revisions
	Blobs
	WantedFiles
	Pruning
	Close() error
}
