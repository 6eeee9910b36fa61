package container

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/peercred"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/resume"
)

// Keys are the keys of the containers that this process has, creates or removes. No process of the instance treats one of these containers
// as a leftover.
type Keys struct {
	registry Registry // nil: records are files

	mu   sync.Mutex
	held map[string]bool
}

// NewKeys returns an empty set of keys. The records of the containers are kept in registry, or in files if that is nil.
func NewKeys(registry Registry) *Keys { return &Keys{registry: registry, held: make(map[string]bool)} }

// Hold adds a key until release is called.
func (k *Keys) Hold(key string) (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[key] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.held, key)
	}
}

// Holds reports whether a key is held.
func (k *Keys) Holds(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[key]
}

// All returns the keys, sorted.
func (k *Keys) All() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.held))
}

// Ownership is this process's claim on a container: while it is held, no process treats the container as a leftover. With a lease the
// container may outlive the process, and the next process adopts it (package reconcile).
type Ownership struct {
	key string
	run string // the folder with the control socket and the record
	// registry has the record instead, if it is not nil.
	registry Registry
	release  func()         // releases the key
	control  *ControlSocket // may be nil
	lease    time.Duration
	secret   []byte
	peer     uint32 // user id of the supervisor at the control socket, as the host sees it
	epoch    uint64 // higher than that of every process that had the container before
	// identity is ours towards a supervisor that listens; nil for one that we attach to.
	identity []byte

	mu       sync.Mutex // guards recorded, also while the record is written
	recorded bool
}

// Own claims a container that is about to be created. run is the folder of the instance.
func (k *Keys) Own(run, key string) *Ownership {
	return &Ownership{key: key, run: run, registry: k.registry, release: k.Hold(key), epoch: 1}
}

// Regain claims a container that another process has left, for a process by its id. control is the container's reopened control socket, nil
// for a supervisor that listens.
func (k *Keys) Regain(run string, r Record, process string, control *ControlSocket) (*Ownership, error) {
	o := k.Own(run, r.Key)
	r.Owner, r.Epoch = process, r.Epoch+1
	if err := r.Write(run); err != nil { // before the supervisor knows the epoch, so that nobody uses it a second time
		o.release()
		return nil, err
	}
	o.control, o.lease, o.secret, o.peer, o.epoch, o.identity, o.recorded = control, r.Lease, r.Secret, r.Peer, r.Epoch, r.Identity, true
	return o, nil
}

// Offer lets the container outlive this process by a lease and returns the secret for the supervisor, which a later process finds again by
// the control socket.
func (o *Ownership) Offer(control *ControlSocket, lease time.Duration) (time.Duration, []byte) {
	o.control = control
	return o.grant(lease)
}

// Expect says which user the supervisor has at the control socket, for one that does not connect to it before a later process reopens it.
func (o *Ownership) Expect(peer uint32) { o.peer = peer }

// OfferIdentity is Offer for a supervisor that listens, for which it returns the identity.
func (o *Ownership) OfferIdentity(lease time.Duration) (identity []byte, _ time.Duration, secret []byte, err error) {
	if o.identity, identity, err = resume.NewIdentities(); err != nil {
		return nil, 0, nil, err
	}
	lease, secret = o.grant(lease)
	return identity, lease, secret, nil
}

func (o *Ownership) grant(lease time.Duration) (time.Duration, []byte) {
	if lease <= 0 {
		return 0, nil
	}
	o.lease, o.secret = lease, make([]byte, frame.SecretSize)
	rand.Read(o.secret) // never fails; see its documentation
	return o.lease, o.secret
}

// Epoch returns a number that is higher than that of every process that had the container before.
func (o *Ownership) Epoch() uint64 { return o.epoch }

// Dialed reports whether the supervisor listens.
func (o *Ownership) Dialed() bool { return o.identity != nil }

// Withdraw cancels the offer if the supervisor could not be found again.
func (o *Ownership) Withdraw() {
	if o.control != nil {
		o.control.Close()
	}
	o.control, o.lease = nil, 0
}

// NoLease makes the container end with this process.
func (o *Ownership) NoLease() { o.lease = 0 }

// Accept waits for the supervisor on the control socket.
func (o *Ownership) Accept() (conn net.Conn, err error) {
	if o.control == nil {
		return nil, fmt.Errorf("%w: no control socket was offered", frame.ErrProtocol)
	}
	if conn, err = o.control.Accept(); err != nil {
		return nil, fmt.Errorf("switch to the control socket: %w", err)
	}
	if o.peer, err = peercred.UID(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("switch to the control socket: %w", err)
	}
	return conn, nil
}

// Begin shuts the control socket once the supervisor has connected or failed to.
func (o *Ownership) Begin() {
	if o.lease > 0 {
		o.control.Shut()
	} else {
		o.control.Close()
	}
}

// End removes what this side holds of the container, which is gone or belongs to nobody.
func (o *Ownership) End() {
	o.control.Close()
	o.erase()
	o.release()
}

// Forsake gives up a container that could not be regained. It becomes a leftover.
func (o *Ownership) Forsake() {
	o.control.Shut()
	o.release()
}

// Yield gives up a container that another process has now. This process never removes it: the key stays held, or a record in the registry
// names the host that has it.
func (o *Ownership) Yield() {
	o.control.Shut()
	if o.registry != nil {
		o.release()
	}
}

// A lease is renewed several times before it expires.
const (
	renewalsPerLease = 10
	maxRenewal       = 30 * time.Second
)

// renewUntilDone renews the lease for as long as the link lasts.
func (c *Container) renewUntilDone() {
	if c.config.Ownership.lease <= 0 {
		<-c.Link.Done()
		return
	}
	clock := time.NewTicker(min(c.config.Ownership.lease/renewalsPerLease, maxRenewal))
	defer clock.Stop()
	for {
		select {
		case <-c.Link.Done():
			return
		case <-clock.C:
			c.renew()
		}
	}
}

func (c *Container) renew() {
	c.Link.Renew(frame.RenewBody{Lease: c.config.Ownership.lease, Keep: c.Shared()})
}

// dismiss ends the lease before the link closes, so that the container ends even if the engine fails to remove it.
func (c *Container) dismiss() {
	if c.config.Ownership.lease > 0 && !c.Link.Dead() {
		c.Link.Renew(frame.RenewBody{})
	}
}

// Leave lets the container outlive this host if background commands run in it and a record exists by which a later host finds it, or if
// other hosts can take it over. No call can enter it afterwards. The caller must call Detach then.
func (c *Container) Leave() bool {
	return !c.Dead() && c.config.Ownership.isRecorded() && (c.Running() || c.Shared()) && c.step(Left)
}

// errDetached is the error of calls whose container was left to a later host.
var errDetached = errors.New("the host is stopping")

// Detach leaves the container to its lease.
func (c *Container) Detach() {
	c.renew()
	c.Link.Close(errDetached)
	<-c.gone
}
