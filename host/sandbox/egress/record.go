package egress

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Record is one decision about a program's request to leave the sandbox.
type Record struct {
	ID      string               `json:"id"` // unique
	At      time.Time            `json:"at"`
	Kind    string               `json:"kind"` // proxy or bridge
	Session message.WorkspaceKey `json:"session"`
	Agent   string               `json:"agent,omitempty"`
	// Method and Host are those of the request, if it could be parsed; for a bridge, its name and its arguments.
	Method  string   `json:"method,omitempty"`
	Host    string   `json:"host,omitempty"`
	Port    uint16   `json:"port,omitempty"`
	Addrs   []string `json:"addrs,omitempty"`
	Allowed bool     `json:"allowed"`
	Reason  string   `json:"reason,omitempty"` // of a refusal
	// Credential is set if the request was given a credential.
	Credential bool `json:"credential,omitempty"`
	// Up and Down count the bytes carried from and to the program, once it has Ended.
	Up    int64     `json:"up"`
	Down  int64     `json:"down"`
	Ended time.Time `json:"ended,omitzero"`
}

// RecordFilter selects records; zero fields select all.
type RecordFilter struct {
	Session string
	Agent   string
	Person  message.SenderKey // only of conversations in which this sender took part
	Denied  bool              // only refusals
	Since   time.Time
	Before  string // the ID of a record: only older ones
	Limit   int    // the newest ones; 1000 by default
}

// Records stores the decisions.
type Records interface {
	// AddEgress stores records. A record with an existing id only updates the bytes and the end.
	AddEgress(ctx context.Context, rs []Record) error
	// ListEgress returns records, oldest first.
	ListEgress(ctx context.Context, f RecordFilter) ([]Record, error)
}
