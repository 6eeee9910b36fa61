package store

import (
	"context"
	"time"
)

// Idle says why a host that is alive gets no keys; it is empty if it gets them.
type Idle string

// The reasons.
const (
	IdleDrained Idle = "drained" // a person has asked for it
	IdleDiffers Idle = "differs" // it runs with another configuration than the hosts agree on
)

// HostState is a host that has had the store open.
type HostState struct {
	ID   string
	Self bool // it is this one
	// Address, Version and Digests are what it has told last.
	Address, Version, Digests string
	Peer                      string // where it listens for other hosts, if it does
	Alive                     bool
	// Since is when its running process has renewed its lease first; for a host that is not alive, when its lease ended or it left. It is the
	// zero time if it has never renewed one.
	Since time.Time
	Idle  Idle
	// How many keys it has taken, by kind.
	Conversations, Channels, Singletons int
}

// Peer is an incarnation of a host that listens for others.
type Peer struct {
	Host, Incarnation string
	Address           string
	Fingerprint       string // of its key; see Lease
}

// Takeover is keys of a host that another one took within a minute, because their host was dead.
type Takeover struct {
	Host, From string
	Last       time.Time
	Keys       int
}

// Members knows the hosts that share the store, and what people ask of them. It serves a host that is fenced out as well, as far as it
// only reads.
type Members interface {
	// Hosts returns all hosts that have had the store open and were not removed, by id.
	Hosts(ctx context.Context) ([]HostState, error)
	// Peers returns the hosts that are alive and listen for others, by id, with this one. A host is among them once its current incarnation
	// has told where it listens.
	Peers(ctx context.Context) ([]Peer, error)
	// Takeovers returns the latest takeovers, latest first.
	Takeovers(ctx context.Context, limit int) ([]Takeover, error)
	// Drain keeps a host from getting keys, or lets it get them again. It lasts until it is undone, through all starts. It
	// returns ErrNotFound if there is no such host.
	Drain(ctx context.Context, host string, drained bool) error
	// Agree makes the digests that this host has told those of all hosts, and what it has of the configuration a Revision that is agreed on; it
	// returns the number of that. The hosts agree by themselves on the digests of the one that starts while no other is alive, and follow the
	// last one that is alive.
	Agree(ctx context.Context, r Revision) (revision int64, err error)
	// Remove forgets a host and gives up its keys. It returns ErrNotFound if there is no such host, and ErrOwned if it is alive.
	Remove(ctx context.Context, host string) error
}
