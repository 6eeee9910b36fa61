package selftest

import "time"

// State is a self-test that runs, or has ended.
type State struct {
	Sandbox string    `json:"sandbox" doc:"The attacked one; empty is [sandbox]"`
	By      string    `json:"by,omitempty"`
	Running bool      `json:"running"`
	Began   time.Time `json:"began,omitzero" doc:"Missing if there was none since the start"`
	Ended   time.Time `json:"ended,omitzero"`
	Of      int       `json:"of" doc:"How many attacks it has"`
	Failure string    `json:"failure,omitempty" doc:"Why its report is not complete"`
	Report            // so far
}
