package plugin

import (
	"time"

	"github.com/flynnhost/flynn/host/plugin/kind"
)

// State is the state of an instance.
type State string

// The states, in the usual order, and the side states.
const (
	Stopped     State = "stopped"
	Verified    State = "verified"    // locked, and every file is what the lock says
	Starting    State = "starting"    // the process runs and has not printed its handshake
	Describing  State = "describing"  // it answers Describe
	Configuring State = "configuring" // it is checking its settings
	Ready       State = "ready"
	Degraded    State = "degraded" // ready, with problems that Detail explains
	Draining    State = "draining" // it is stopping and finishes its calls
	Backoff     State = "backoff"  // it failed and will be started again
	Quarantined State = "quarantined"
	Disabled    State = "disabled" // by flynn plugin disable
	Standby     State = "standby"  // another host runs it; this one does when it gets the lease
)

// Status is the status of an instance.
type Status struct {
	Name      string    `json:"name"`
	Plugin    string    `json:"plugin"`
	Version   string    `json:"version,omitempty"`
	Kind      kind.Name `json:"kind"`
	State     State     `json:"state"`
	Since     time.Time `json:"since"`            // of State
	Detail    string    `json:"detail,omitempty"` // what the plugin says about its platform, or why it is degraded
	PID       int       `json:"pid,omitempty"`
	Restarts  int       `json:"restarts"` // processes after the first
	LastError string    `json:"last_error,omitempty"`
	Critical  bool      `json:"critical,omitempty"`
	// Login is true while a person has to scan a code, which Host.LoginCode returns.
	Login bool `json:"login,omitempty"`
	// Dev is true for a plugin that runs from a development folder, unverified.
	Dev bool `json:"dev,omitempty"`
	// Attached is the address of an unverified process that was started by hand.
	Attached string `json:"attached,omitempty"`
}
