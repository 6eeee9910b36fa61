package store

import (
	"context"
	"time"
)

// RevisionState says what has become of a Revision.
type RevisionState string

// The states.
const (
	RevisionOpen    RevisionState = "open"
	RevisionAgreed  RevisionState = "agreed"
	RevisionRefused RevisionState = "refused"
)

// Revision is a change of the configuration, as far as it concerns all hosts that share the store.
type Revision struct {
	Number int64
	// Host has proposed it, and Base is the revision that it had.
	Host string
	Base int64
	// Was and Digest are the digests of the configuration before and after.
	Was, Digest string
	// Before and After are what concerns all hosts of the text of the configuration.
	Before, After []byte
	State         RevisionState
	// Reason is why it was refused, with the name of the host.
	Reason string
	// Hosts are those that are for it.
	Hosts []string
}

// Standing is where a host stands among the others.
type Standing struct {
	Own    int64 // the revision that this host has told last
	Agreed int64 // the last that was agreed on; 0 if there is none
	Open   int64 // that this incarnation of the host has to vote on; 0 if there is none
}

// Revisions has the hosts that share a store agree on changes of the configuration. A revision is agreed on when every host that is alive at that
// moment has voted for it in its present incarnation. It is refused by the first vote against it, when its time is over, and while a host is alive
// that cannot vote.
type Revisions interface {
	// Standing returns where this host stands.
	Standing(ctx context.Context) (Standing, error)
	// Revision returns a revision, or ErrNotFound.
	Revision(ctx context.Context, number int64) (Revision, error)
	// Propose proposes a revision, which has to be settled within a time, and votes for it. It returns a Conflict if its base is not the last
	// that was agreed on, if another revision is open, or if a host is alive that cannot vote. The number is 0 if this host differs from
	// what the hosts agree on: then its configuration does not concern the others.
	Propose(ctx context.Context, r Revision, within time.Duration) (Revision, error)
	// Vote votes for a revision, or against it with a reason, and settles it if that decides.
	Vote(ctx context.Context, number int64, reason string) error
	// SettleRevision settles a revision if all hosts that are still alive have voted, or if its time is over.
	SettleRevision(ctx context.Context, number int64) error
}
