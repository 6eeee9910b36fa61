//go:build linux

package supervise

import (
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// lease is how long we go on without a word of the host. It counts the ticks of its own clock, and not the time
// between two looks at one: neither the monotonic clock nor the one that counts a suspended machine stops while
// somebody has the engine pause the container, and a lease that ran out meanwhile would end what the host is about to use.
type lease struct {
	secret  []byte
	expired chan struct{}
	// hangUp is called once it has expired.
	hangUp func()

	mu      sync.Mutex
	length  time.Duration // 0: we end with the host
	silence time.Duration
	over    bool
}

// A lease's clock ticks so often, however long it is.
const (
	leaseTicks = 20
	maxTick    = time.Second
	minTick    = 10 * time.Millisecond
)

// newLease begins a lease; without a control socket there is none, because the host could never come back.
func newLease(h frame.HelloBody, control bool, hangUp func()) *lease {
	l := &lease{expired: make(chan struct{}), hangUp: hangUp}
	if control && h.Lease > 0 && len(h.Secret) == frame.SecretSize {
		l.secret, l.length = h.Secret, h.Lease
		go l.run()
	}
	return l
}

// run counts until the lease is over.
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

// count adds to the silence and reports whether the lease is over.
func (l *lease) count(tick time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence += tick
	l.over = l.length > 0 && l.silence > l.length
	return l.over
}

// renew takes the host's sign of life.
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
		l.length = b.Lease
	}
	return nil
}

// holds reports whether we are to outlast the host.
func (l *lease) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length > 0 && !l.over
}

// revive begins the lease anew for a host that is back, unless it is over.
func (l *lease) revive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence = 0
	return !l.over
}
