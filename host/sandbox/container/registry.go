package container

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Registry keeps the records of containers that other hosts of a cluster can take over, in place of files. A record has one owner: the host
// that has taken it last, in the record's epoch. Only the host that owns the conversation of a record may take it.
type Registry interface {
	// Conversation returns the conversation for which a call is made.
	Conversation(ctx context.Context) (c message.ConversationKey, is bool)
	// Enter claims a conversation for some work, whose context ends when the conversation is lost. is is false if another host owns it.
	Enter(ctx context.Context, c message.ConversationKey) (work context.Context, done func(), is bool, err error)
	// Add adds a record.
	Add(ctx context.Context, r Record) error
	// Take makes this host the owner of a record, in the next epoch. It returns frame.ErrTaken if the record is gone, or was taken since.
	Take(ctx context.Context, r Record) error
	// Drop removes a record that is in an epoch. One that was taken since stays.
	Drop(ctx context.Context, key string, epoch uint64) error
	// List returns the records of a session, or all of them if it is empty.
	List(ctx context.Context, session message.WorkspaceKey) ([]Registered, error)
}

// Registered is a record in a Registry.
type Registered struct {
	Record
	// Free means that no other host that is alive owns the conversation.
	Free bool
	// Foreign means that the record cannot be read by this program; it has only a key.
	Foreign bool
}

// registryTimeout bounds each call to a registry that no caller waits for.
const registryTimeout = 10 * time.Second

// Take claims a container that another host has left, or has lost with its conversation.
func (k *Keys) Take(ctx context.Context, run string, r Record) (*Ownership, error) {
	o := k.Own(run, r.Key)
	if err := k.registry.Take(ctx, r); err != nil { // before the supervisor knows the epoch, so that nobody uses it a second time
		o.release()
		return nil, err
	}
	o.lease, o.secret, o.epoch, o.identity, o.recorded = r.Lease, r.Secret, r.Epoch+1, r.Identity, true
	return o, nil
}

// Shared reports whether other hosts can take the container over.
func (c *Container) Shared() bool {
	return c.config.Ownership.registry != nil && c.config.Ownership.isRecorded()
}

// TakenOver reports whether another host had the container before, or another process of this one.
func (c *Container) TakenOver() bool { return c.config.Ownership.epoch > 1 }

// Registrable reports whether Register has something to do: the container may outlive this host, and is not recorded yet.
func (c *Container) Registrable() bool {
	return c.config.Ownership.lease > 0 && !c.config.Ownership.isRecorded()
}

// Register records the container for other hosts, once. r names its conversation, session, engine and specification; the rest is filled in. From
// then on the container outlives this host for its lease, even without background commands. Without a lease it does nothing.
func (c *Container) Register(ctx context.Context, r Record) error {
	o := c.config.Ownership
	if o.lease <= 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recorded {
		return nil
	}
	c.complete(&r)
	if err := o.registry.Add(ctx, r); err != nil {
		return err
	}
	o.recorded = true
	c.Link.Renew(frame.RenewBody{Lease: o.lease, Keep: true})
	return nil
}
