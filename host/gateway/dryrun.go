package gateway

import (
	"context"
	"encoding/json"

	"github.com/flynnhost/flynn/host/message"
)

// DryRunCall is a call to try as if an agent made it now, in answer to a message.
type DryRunCall struct {
	Tool  string          `json:"tool"`
	Agent string          `json:"agent"`
	Args  json.RawMessage `json:"args"`

	Channel      string       `json:"channel"`
	Sender       string       `json:"sender"` // as the channel knows it
	Account      string       `json:"account,omitempty"`
	SenderRoles  []string     `json:"sender_roles,omitempty"`
	Conversation string       `json:"conversation"`
	Kind         message.Kind `json:"kind"`
	Parent       string       `json:"parent,omitempty"`
	Text         string       `json:"text,omitempty"`
	Labels       []string     `json:"labels,omitempty"` // added to those of the session
}

// DryRunResult is what would happen to a DryRunCall.
type DryRunResult struct {
	Tool        string             `json:"tool"`
	Agent       string             `json:"agent"`
	Session     message.SessionKey `json:"session"`
	Sender      message.SenderKey  `json:"sender"`
	Role        string             `json:"role"`
	NotAdmitted string             `json:"not_admitted,omitempty"` // why such a message is not answered at all
	Labels      []string           `json:"labels"`
	Args        json.RawMessage    `json:"args,omitempty"` // canonical
	Action      string             `json:"action"`         // run, ask or deny
	Where       string             `json:"where,omitempty"`
	Sandbox     bool               `json:"sandbox"`
	Elevated    bool               `json:"elevated"`
	Reasons     []string           `json:"reasons"` // each restriction, in the order in which they were added
	Refusal     string             `json:"refusal,omitempty"`
	Policies    []PolicyAnswer     `json:"policies"`
	// Lease is the grant that would be used instead of asking a person.
	Lease *Grant `json:"lease,omitempty"`
}

// PolicyAnswer is the answer of one policy.
type PolicyAnswer struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Answer string `json:"answer"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	Fuel   int64  `json:"fuel"`
	Nanos  int64  `json:"nanos"`
}

// DryRuns tries calls without running them.
type DryRuns interface {
	// DryRun returns what enforcement would decide. It runs nothing, asks nobody and uses no grant. store.ErrNotFound if there is no such agent
	// or channel.
	DryRun(ctx context.Context, call DryRunCall) (DryRunResult, error)
}
