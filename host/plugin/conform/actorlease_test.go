//go:build unix

package conform

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// tie is what an actor knows of the leases of its host.
type tie struct {
	limited bool
	epoch   int64
	until   time.Duration // since the start
	sending time.Duration // by when it must stop sending; at least until
	began   time.Time     // the start; the actor is never suspended
	ended   bool          // there was a lease
	ask     chan struct{} // a Renew is due
}

func newTie() tie { return tie{began: time.Now(), ask: make(chan struct{}, 1)} }

// due lets the stream ask for a lease.
func (t *tie) due() {
	select {
	case t.ask <- struct{}{}:
	default:
	}
}

func (t *tie) renew() *channelv1.ReceiveResponse {
	return &channelv1.ReceiveResponse{Frame: &channelv1.ReceiveResponse_Renew{Renew: &channelv1.Renew{Mark: uint64(time.Since(t.began))}}}
}

// held reports whether the actor may use its platform. a.mu is held.
func (a *actor) held() bool { return !a.tie.limited || time.Since(a.tie.began) < a.tie.until }

// sends reports whether the actor may send. a.mu is held.
func (a *actor) sends() bool {
	return a.held() || time.Since(a.tie.began) < a.tie.sending && !a.is("sends-late")
}

// out returns the connection to send over, which receives nothing unless the actor may. a.mu is held.
func (a *actor) out() *link {
	if a.link != nil {
		return a.link
	}
	if a.mute == nil {
		a.mute, _ = dialLink(a.address)
	}
	return a.mute
}

// lease obeys a Lease, more or less.
func (a *actor) lease(l *channelv1.Lease) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, mark := time.Since(a.tie.began), time.Duration(l.GetMark())
	switch {
	case l.GetEpoch() < a.tie.epoch && !a.is("any-epoch"):
		return status.Error(codes.FailedPrecondition, "an earlier epoch")
	case a.is("lease-from-answer"):
		mark = now
	case a.is("leases-once") && a.tie.ended:
		mark = 0
	}
	a.tie.epoch, a.tie.until = l.GetEpoch(), mark+l.GetDuration().AsDuration()
	a.tie.sending = mark + max(l.GetDuration().AsDuration(), l.GetSending().AsDuration())
	if a.is("receives-early") {
		a.tie.until = a.tie.sending
	}
	time.AfterFunc(300*time.Millisecond, a.tie.due)
	time.AfterFunc(a.tie.until-now, a.expire)
	if a.link == nil && a.held() {
		return a.connect()
	}
	return nil
}

// connect goes to the platform. a.mu is held.
func (a *actor) connect() error {
	l, err := dialLink(a.address)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	a.link = l
	go l.read(a.hear) // ends with the link
	return nil
}

// expire leaves the platform if the lease has expired.
func (a *actor) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held() || a.link == nil || a.is("listens-on") {
		return
	}
	a.tie.ended = true
	for _, e := range a.events {
		if a.is("acks-expired") {
			a.link.put(wireLine{Ack: e.GetEventId()})
		}
	}
	a.link.conn.Close()
	a.link = nil
}
