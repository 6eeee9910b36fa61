package container

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Keys are the keys of the containers that this process has, makes or removes. No process of the instance takes one of these containers
// for a leftover.
type Keys struct {
	mu   sync.Mutex
	held map[string]bool
}

// NewKeys returns no keys.
func NewKeys() *Keys { return &Keys{held: make(map[string]bool)} }

// Hold enters a key until release is called.
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

// Holds reports whether a key was entered.
func (k *Keys) Holds(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[key]
}

// All are the keys, sorted.
func (k *Keys) All() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.held))
}

// Ownership is the hold that this process has on a container: while it lasts, no process takes the container for a leftover.
// With a lease the container may outlast the process, and the one that comes after it adopts it (package reconcile).
type Ownership struct {
	key     string
	run     string         // the folder with the control socket and the record
	release func()         // lets go of the key
	control *ControlSocket // or nil
	lease   time.Duration
	secret  []byte
	peer    uint32 // the supervisor's user, as the host sees it

	mu       sync.Mutex // guards recorded, and is held over the writing of the record
	recorded bool
}

// Own holds the key of a container that is about to be made. run is the folder of the instance.
func (k *Keys) Own(run, key string) *Ownership {
	return &Ownership{key: key, run: run, release: k.Hold(key)}
}

// Regain holds a container that another process has left, whose control socket was opened again.
func (k *Keys) Regain(run string, r Record, control *ControlSocket) *Ownership {
	o := k.Own(run, r.Key)
	o.control, o.lease, o.secret, o.peer, o.recorded = control, r.Lease, r.Secret, r.Peer, true
	return o
}

// Offer has the container outlast this process by a lease; the supervisor is told the secret. It takes a control socket, over which
// the supervisor is found again.
func (o *Ownership) Offer(control *ControlSocket, lease time.Duration) (time.Duration, []byte) {
	o.control = control
	if lease <= 0 {
		return 0, nil
	}
	o.lease, o.secret = lease, make([]byte, frame.SecretSize)
	rand.Read(o.secret) // never fails, says its documentation
	return o.lease, o.secret
}

// Withdraw takes the offer back where the supervisor could not be found again.
func (o *Ownership) Withdraw() {
	if o.control != nil {
		o.control.Close()
	}
	o.control, o.lease = nil, 0
}

// NoLease has the container end with this process.
func (o *Ownership) NoLease() { o.lease = 0 }

// Accept waits for the supervisor at the control socket.
func (o *Ownership) Accept() (conn net.Conn, err error) {
	if o.control == nil {
		return nil, fmt.Errorf("%w: no control socket was offered", frame.ErrProtocol)
	}
	if conn, err = o.control.Accept(); err != nil {
		return nil, fmt.Errorf("change to the control socket: %w", err)
	}
	if o.peer, err = PeerUID(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("change to the control socket: %w", err)
	}
	return conn, nil
}

// Begin shuts the control socket once the supervisor has connected, or has not.
func (o *Ownership) Begin() {
	if o.lease > 0 {
		o.control.Shut()
	} else {
		o.control.Close()
	}
}

// End gives up what there is of the container on this side. The container is gone, or nobody's.
func (o *Ownership) End() {
	o.control.Close()
	o.erase()
	o.release()
}

// Forsake lets go of a container that could not be regained. It is a leftover then.
func (o *Ownership) Forsake() {
	o.control.Shut()
	o.release()
}

// A lease is renewed several times before it would run out.
const (
	renewalsPerLease = 10
	maxRenewal       = 30 * time.Second
)

// renewUntilDone tells the supervisor that the host lives, for as long as the link does.
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
			c.Link.Renew(c.config.Ownership.lease)
		}
	}
}

// dismiss ends the lease before the link closes, so that the container ends even if the engine does not remove it.
func (c *Container) dismiss() {
	if c.config.Ownership.lease > 0 && !c.Link.Dead() {
		c.Link.Renew(0)
	}
}

// Leave has the container outlast this host if it has something to go on with: commands in the background, and a record by which a later
// host finds it. No call enters it any more. Detach has to follow.
func (c *Container) Leave() bool {
	return !c.Dead() && c.config.Ownership.isRecorded() && c.Running() && c.step(Left)
}

// errDetached is the reason of calls that fail because their container was left for a later host.
var errDetached = errors.New("the host is stopping")

// Detach leaves the container for its lease.
func (c *Container) Detach() {
	c.Link.Renew(c.config.Ownership.lease)
	c.Link.Close(errDetached)
	<-c.gone
}

// PeerUID is the user at the other end of a socket, as it was when that end connected.
func PeerUID(conn net.Conn) (uint32, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) { peer, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil && failure != nil {
		err = os.NewSyscallError("getsockopt", failure)
	}
	if err != nil {
		return 0, err
	}
	return peer.Uid, nil
}
