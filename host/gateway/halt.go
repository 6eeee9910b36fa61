package gateway

import (
	"context"
	"time"
)

// Halter is the kill switch.
type Halter interface {
	// Halt turns the kill switch on, with a reason, or off. Doing either twice changes nothing.
	Halt(ctx context.Context, on bool, reason, by string) error
}

// HaltStatus is the kill switch while it is on.
type HaltStatus struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}
