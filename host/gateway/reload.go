package gateway

import (
	"context"
)

// Reloader puts the file of the configuration in force.
type Reloader interface {
	// Reload loads the file and returns what is in force. An error says why the generation before stays in force.
	Reload(ctx context.Context, by string) (Reloaded, error)
}

// Reloaded is the answer to a reload. Refused is why the file is not in force; empty if it is.
type Reloaded struct {
	Generation uint64 `json:"generation"`
	// Hosts are those that have agreed on a change, if several share the store and it concerns all.
	Hosts   []string `json:"hosts,omitempty" doc:"Those that have agreed on the change and put it in force, where several share a database"`
	Refused string   `json:"refused,omitempty"`
}
