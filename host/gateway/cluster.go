package gateway

import (
	"context"
	"time"
)

// Cluster are the hosts that share the store of this one. Its changes return store.ErrConflict if the store is not shared.
type Cluster interface {
	Cluster(ctx context.Context) (ClusterStatus, error)
	// DrainHost keeps a host from getting work, or lets it get it again: store.ErrNotFound if there is none of the name.
	DrainHost(ctx context.Context, name string, drained bool) error
	// RemoveHost forgets a host: store.ErrConflict if it is alive.
	RemoveHost(ctx context.Context, name string) error
	// AcceptConfiguration makes the configuration of this host, with its policies and plugins, that of all.
	AcceptConfiguration(ctx context.Context) error
}

// ClusterStatus is the state of the hosts that share a store.
type ClusterStatus struct {
	Shared    bool          `json:"shared" doc:"Whether the store is shared at all; without that there is nothing else"`
	This      string        `json:"this,omitempty" doc:"The name of the host that answers"`
	Hosts     []ClusterHost `json:"hosts" doc:"By name"`
	Takeovers []Takeover    `json:"takeovers" doc:"The latest, latest first"`
}

// ClusterHost is one of the hosts that share a store.
type ClusterHost struct {
	Name          string    `json:"name"`
	Address       string    `json:"address,omitempty" doc:"Where its gateway listens"`
	Version       string    `json:"version,omitempty"`
	Alive         bool      `json:"alive"`
	Since         time.Time `json:"since,omitzero" doc:"Since when it is alive, or not; not set if it has never served"`
	Idle          string    `json:"idle,omitempty" enum:"drained,differs" doc:"Why it gets no work: a person has drained it, or its configuration, policies or plugins differ from what the hosts agree on"`
	Peer          string    `json:"peer,omitempty" doc:"Where it listens for other hosts, which then show its answers while they are written"`
	Reached       string    `json:"reached,omitempty" enum:"yes,no" doc:"Whether the host that answers reaches it there; not set for itself, and while that is not known"`
	Unreached     string    `json:"unreached,omitempty" doc:"Why it is not reached"`
	Differs       bool      `json:"differs" doc:"Whether its configuration, policies or plugins differ from those of the host that answers"`
	Conversations int       `json:"conversations" doc:"How many it works for"`
	Channels      int       `json:"channels"`
	Tasks         int       `json:"tasks" doc:"Of those that one host does for all: schedules, upkeep and memory"`
}

// Takeover is work of a dead host that another one took within a minute.
type Takeover struct {
	Host string    `json:"host" doc:"Who took it"`
	From string    `json:"from" doc:"Who was dead"`
	Last time.Time `json:"last"`
	Keys int       `json:"keys" doc:"How many conversations, channels and tasks"`
}
