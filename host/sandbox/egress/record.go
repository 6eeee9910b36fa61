package egress

import (
	"context"
	"time"
)

// Record is one decision about what a program in a sandbox asked to reach.
type Record struct {
	ID      string    `json:"id"` // unique
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"` // proxy, or bridge
	Session string    `json:"session"`
	Agent   string    `json:"agent,omitempty"`
	// Method and Host are those of the request, if it could be read; of a bridge its name and its arguments.
	Method  string   `json:"method,omitempty"`
	Host    string   `json:"host,omitempty"`
	Port    uint16   `json:"port,omitempty"`
	Addrs   []string `json:"addrs,omitempty"`
	Allowed bool     `json:"allowed"`
	Reason  string   `json:"reason,omitempty"` // of a refusal
	// Credential says that the request was given one.
	Credential bool `json:"credential,omitempty"`
	// Up and Down are the bytes carried from the program and to it, once it has Ended.
	Up    int64     `json:"up"`
	Down  int64     `json:"down"`
	Ended time.Time `json:"ended,omitzero"`
}

// RecordFilter selects records; zero fields select all.
type RecordFilter struct {
	Session string
	Denied  bool // only refusals
	Since   time.Time
	Limit   int // the latest so many; 1000
}

// Records keeps what programs in sandboxes asked to reach.
type Records interface {
	// AddEgress commits records. One whose id is there already only brings the bytes and the end.
	AddEgress(ctx context.Context, rs []Record) error
	// ListEgress returns records in the order in which they came.
	ListEgress(ctx context.Context, f RecordFilter) ([]Record, error)
}
