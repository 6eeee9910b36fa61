//go:build linux

package supervise

import (
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// lease is how long the supervisor continues without a sign of life from the host. It counts the ticks of its own timer instead of
// comparing times: while somebody pauses the container on the engine, every clock of the kernel continues, and the lease would expire and
// end what the host is about to use.
type lease struct {
	secret  []byte
	expired chan struct{}
	// hangUp is called once it has expired.
	hangUp func()

	mu      sync.Mutex
	length  time.Duration // 0: we end with the host
	keep    bool          // we outlast the host even without background commands
	silence time.Duration
	over    bool
}

// The tick of a lease depends on its length within these limits.
const (
	leaseTicks = 20
	maxTick    = time.Second
	minTick    = 10 * time.Millisecond
)

// newLease begins a lease, unless no host could return.
func newLease(h frame.HelloBody, returns bool, hangUp func()) *lease {
	l := &lease{expired: make(chan struct{}), hangUp: hangUp}
	if returns && h.Lease > 0 && len(h.Secret) == frame.SecretSize {
		l.secret, l.length = h.Secret, h.Lease
		go l.run()
	}
	return l
}

// run counts until the lease has expired.
func (l *lease) run() {
	tick := min(max(l.length/leaseTicks, minTick), maxTick)
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for range clock.C {
		if l.count(tick) {
			close(l.expired)
			l.hangUp()
			return
		}
	}
}

// count adds to the time without a sign of life, and reports whether the lease has expired.
func (l *lease) count(tick time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence += tick
	l.over = l.length > 0 && l.silence > l.length
	return l.over
}

// renew handles the host's sign of life.
func (l *lease) renew(body []byte) error {
	var b frame.RenewBody
	if err := frame.Decode(body, &b); err != nil {
		return err
	}
	if b.Lease < 0 {
		return fmt.Errorf("%w: lease of %v", frame.ErrProtocol, b.Lease)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence = 0
	if l.secret != nil {
		l.length, l.keep = b.Lease, b.Keep
	}
	return nil
}

// holds reports whether we outlive the host.
func (l *lease) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length > 0 && !l.over
}

// keeps reports whether we outlive the host even without background commands.
func (l *lease) keeps() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keep && l.length > 0 && !l.over
}

// revive restarts the lease for a host that has returned, unless it has expired.
func (l *lease) revive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence = 0
	return !l.over
}
