package store

import (
	"context"

	"github.com/flynnhost/flynn/host/message"
)

// Sandbox is the record of a sandbox that the hosts which share the store can take over from each other.
type Sandbox struct {
	Key          string
	Workspace    message.WorkspaceKey
	Conversation message.ConversationKey
	Host         string // that has taken it last
	Epoch        int64  // grows each time that a host takes it, from 1
	// Record is what a host needs to reach the sandbox, with the secrets of that.
	Record []byte
	// Free means that no other host that is alive owns the conversation. Only ListSandboxes sets it.
	Free bool
}

// SandboxRecords are the records of sandboxes and of where workspaces are.
type SandboxRecords interface {
	// AddSandbox adds a record in epoch 1, as this host's.
	AddSandbox(ctx context.Context, s Sandbox) error
	// TakeSandbox makes a record that is in an epoch this host's, in the next epoch. It returns ErrFenced unless this host owns the
	// conversation, and ErrConflict if the record is gone or in another epoch.
	TakeSandbox(ctx context.Context, key string, epoch int64) error
	// DropSandbox removes a record that is in an epoch. One that is gone or in another epoch is left.
	DropSandbox(ctx context.Context, key string, epoch int64) error
	// ListSandboxes returns the records of a workspace by key, or all of them if it is empty.
	ListSandboxes(ctx context.Context, workspace message.WorkspaceKey) ([]Sandbox, error)
	// WorkIn records that this host works with the files of a workspace, and returns the other host that did so last; empty if
	// none did, or this one.
	WorkIn(ctx context.Context, workspace message.WorkspaceKey) (before string, err error)
}
