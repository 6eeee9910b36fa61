package policy

import "time"

// States of a policy.
const (
	StateRunning = "running"
	StateFailing = "failing" // could not be loaded: every decision fails closed
	StateStale   = "stale"   // an older module is in force, because the file's could not be loaded
	StatePinned  = "pinned"  // a person rolled back to an older module
	StateLoading = "loading" // of a configuration that is not in force yet
)

// Status is the state of one policy of the chain.
type Status struct {
	Name       string        `json:"name"`
	Path       string        `json:"path"`
	Kinds      []string      `json:"kinds"`
	Isolation  string        `json:"isolation"`
	Shadow     bool          `json:"shadow,omitempty"`    // asked without effect
	ShadowOf   string        `json:"shadow_of,omitempty"` // what it is compared with; empty is the whole chain
	State      string        `json:"state"`
	Error      string        `json:"error,omitempty"`   // why it is failing or stale
	Warning    string        `json:"warning,omitempty"` // of a running module
	File       string        `json:"file,omitempty"`    // SHA-256 of the module in force
	Pinned     string        `json:"pinned,omitempty"`  // SHA-256 of the module that a person rolled back to
	Digest     string        `json:"digest,omitempty"`  // of module, data, limits and meter version
	LoadedAt   time.Time     `json:"loaded_at,omitzero"`
	LoadTook   time.Duration `json:"load_took_ns,omitempty"`
	Instances  int           `json:"instances"`
	MemoryEach int64         `json:"memory_each"` // bytes of one instance's linear memory
	Decisions  int64         `json:"decisions"`
	Failures   int64         `json:"failures"`
	Resets     int64         `json:"resets"`
	Stateful   int64         `json:"stateful"` // sampled decisions that a pristine instance answered differently
	FuelTotal  int64         `json:"fuel_total"`
	FuelMax    int64         `json:"fuel_max"`
	FuelLimit  int64         `json:"fuel_limit"`
	// Agents and Channels are the globs for which the policy is asked; empty is all.
	Agents       []string `json:"agents,omitempty"`
	Channels     []string `json:"channels,omitempty"`
	AllowOnError bool     `json:"dangerously_allow_on_error,omitempty"`
	Passed       int64    `json:"passed_on_error,omitempty"` // tool calls that passed because it failed
}
