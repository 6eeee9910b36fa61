package sandbox

import (
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// ownership is the hold that this process has on a container: while it lasts, no process takes the container for a leftover.
// With a lease the container may outlast the process, and the one that comes after it (adopt.go).
type ownership struct {
	key      string
	run      string         // the folder with the control socket and the record
	release  func()         // lets go of the key
	control  *controlSocket // or nil
	lease    time.Duration
	secret   []byte
	peer     uint32      // the supervisor's user, as the host sees it
	detached atomic.Bool // the container was left for its lease

	mu       sync.Mutex // guards recorded, and is held over the writing of the record
	recorded bool
}

// newOwnership enters the key, so that the container is never seen without an owner.
func (m *Manager) newOwnership(key string) *ownership {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[key] = true
	return &ownership{key: key, run: m.run, release: func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.held, key)
	}}
}

// holds reports whether a key belongs to a container that this process has, or is making or removing.
func (m *Manager) holds(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[key]
}

// controlFolderOf is where the control socket of a container lies that a process has made.
func (m *Manager) controlFolderOf(host, key string) string {
	return filepath.Join(m.run, controlPrefix+host+"-"+key)
}

// offer is what the hello says about the lease.
func (t *ownership) offer(lease time.Duration) (time.Duration, []byte) {
	if lease <= 0 {
		return 0, nil
	}
	t.lease, t.secret = lease, make([]byte, frame.SecretSize)
	rand.Read(t.secret) // never fails, says its documentation
	return t.lease, t.secret
}

// begin shuts the control socket once the supervisor has connected, or has not.
func (t *ownership) begin() {
	if t.lease > 0 {
		t.control.shut()
	} else {
		t.control.close()
	}
}

// end gives up what there is of the container on this side. The container is gone, or nobody's.
func (t *ownership) end() {
	t.control.close()
	t.erase()
	t.release()
}

// A lease is renewed several times before it would run out.
const (
	renewalsPerLease = 10
	maxRenewal       = 30 * time.Second
)

// renewUntilDone tells the supervisor that the host lives, for as long as the link does.
func (b *box) renewUntilDone() {
	if b.ownership.lease <= 0 {
		<-b.link.Done()
		return
	}
	clock := time.NewTicker(min(b.ownership.lease/renewalsPerLease, maxRenewal))
	defer clock.Stop()
	for {
		select {
		case <-b.link.Done():
			return
		case <-clock.C:
			b.link.Renew(b.ownership.lease)
		}
	}
}

// dismiss ends the lease before the link, so that the container ends even if the engine does not remove it.
func (b *box) dismiss() {
	if b.ownership.lease > 0 && !b.link.Dead() {
		b.link.Renew(0)
	}
}

// detach leaves the container for its lease.
func (b *box) detach() {
	b.ownership.detached.Store(true)
	b.link.Renew(b.ownership.lease)
	b.link.Close(errDetached)
	<-b.gone
}

// peerUID is the user at the other end of a socket, as it was when that end connected.
func peerUID(conn net.Conn) (uint32, error) {
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
