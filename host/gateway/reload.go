package gateway

import (
	"context"
)

// Reloader puts the file of the configuration in force.
type Reloader interface {
	// Reload loads the file and returns the generation in force. An error says why the generation before it stays in force.
	Reload(ctx context.Context, by string) (generation uint64, err error)
}

// Reloaded is the answer to a reload. Refused is why the file is not in force; empty if it is.
type Reloaded struct {
	Generation uint64 `json:"generation"`
	Refused    string `json:"refused,omitempty"`
}
