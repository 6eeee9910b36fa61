package plugin

import "time"

// StateChanged is published when the state of an instance changes.
type StateChanged struct{ Status }

// Called is published after every call to a plugin.
type Called struct {
	Instance, Method string
	Took             time.Duration
	Err              error
}
