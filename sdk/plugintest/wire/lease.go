package wire

import (
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// Leases is the host's end of the leases of a channel. It can be suspended, like a host that is stopped or whose machine stands still, while
// the plugin goes on.
type Leases struct {
	mu        sync.Mutex
	epoch     int64
	duration  time.Duration
	sending   time.Duration // at least duration
	suspended bool
	until     time.Time // by when the latest lease has expired
	waiting   []func()  // answer what was asked while the host was suspended
}

// NewLeases returns a host that has the channel.
func NewLeases(epoch int64, duration time.Duration) *Leases {
	return &Leases{epoch: epoch, duration: duration, sending: duration}
}

// Grant sets the leases from now on; a duration of 0 means that the host has none to give. A suspended host goes on with them, and answers
// first what it was asked meanwhile.
func (l *Leases) Grant(epoch int64, duration time.Duration) {
	l.grant(epoch, duration, duration)
}

// GrantSending is Grant for a host that must not let the plugin receive, because the plugin of another host may still do so.
func (l *Leases) GrantSending(epoch int64, duration time.Duration) { l.grant(epoch, 0, duration) }

func (l *Leases) grant(epoch int64, duration, sending time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.duration, l.sending, l.suspended = epoch, duration, sending, false
	for _, answer := range l.waiting {
		answer()
	}
	l.waiting = nil
}

// Suspend suspends the host until the next Grant, and returns when the lease of the plugin has expired at the latest.
func (l *Leases) Suspend() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspended = true
	return l.until
}

// asked answers a Renew, now or when the host goes on.
func (l *Leases) asked(r *channelv1.Renew, send func(*channelv1.ReceiveRequest) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	came := time.Now()
	answer := func() {
		l.until = came.Add(l.sending)
		lease := Grease(&channelv1.Lease{Epoch: l.epoch, Duration: durationpb.New(l.duration), Mark: r.GetMark(), Sending: durationpb.New(l.sending)})
		_ = send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Lease{Lease: lease}}) // Recv returns the error
	}
	if l.suspended {
		l.waiting = append(l.waiting, answer)
		return
	}
	answer()
}
