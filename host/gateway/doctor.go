package gateway

import "context"

// Doctor looks for what is wrong or weak.
type Doctor interface {
	// Examine looks; store.ErrConflict while it is looking already.
	Examine(ctx context.Context) (Examination, error)
	// Mend mends all findings of a code that need no person, and returns them: store.ErrNotFound if there is no such code,
	// store.ErrConflict if only a person can mend it.
	Mend(ctx context.Context, code string) ([]Finding, error)
}

// Examination is what was found.
type Examination struct {
	Findings   []Finding `json:"findings"`
	Unexamined []string  `json:"unexamined" doc:"What could not be looked at, and why"`
	Weaker     []string  `json:"weaker" doc:"What this system guarantees less of than Linux"`
}

// Finding is one thing that is wrong or weak.
type Finding struct {
	Code     string `json:"code"`
	Area     string `json:"area"`
	Severity string `json:"severity" enum:"wrong,weak" doc:"weak: it works, and should be otherwise"`
	What     string `json:"what"`
	Why      string `json:"why"`
	Mend     string `json:"mend,omitempty" doc:"What to do"`
	Command  string `json:"command,omitempty" doc:"Which command does it"`
	Page     string `json:"page" doc:"The page of the documentation"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Key      string `json:"key,omitempty"`
	Fixable  bool   `json:"fixable" doc:"POST /doctor/CODE/mend mends it"`
}
