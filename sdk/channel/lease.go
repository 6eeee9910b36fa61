package channel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/uptime"
)

// ErrLeaseExpired is the cause (context.Cause) with which the contexts of Run and of calls end when the host's lease has expired: another
// host may use the account now. An event that gets it has to be delivered again.
var ErrLeaseExpired = errors.New("the host's lease of this channel has expired: another host may be using the account")

const (
	maxLease   = time.Hour              // a longer one is cut
	leaseTick  = 250 * time.Millisecond // between two looks at the clock, because timers stand still while the machine is suspended
	leaseRetry = 250 * time.Millisecond // before the next Renew without a lease
	leaseLeast = 50 * time.Millisecond  // before the next Renew with one
	// leaveTime is how long Run may take to return after the lease has expired. The process ends then, and its connections with it.
	leaveTime = 500 * time.Millisecond
	// sendGrace is how long a call that is already under way may go on after the lease has expired, so that its outcome becomes known.
	sendGrace = 300 * time.Millisecond
)

// lease is the right of this process to use its platform. Without a host that grants leases it never expires.
//
// A lease lasts from the moment at which the plugin asked for it, and the host looked at its own after that. So it never outlasts that of
// the host, however long an answer was delayed on either side.
type lease struct {
	clock func() time.Duration // goes on while the process or the machine is suspended

	mu       sync.Mutex
	limited  bool          // the host grants leases
	apart    bool          // calls need not wait for the lease of the half that receives
	epoch    int64         // the highest so far
	whole    term          // of everything
	sending  term          // of calls; it lasts at least as long
	answered chan struct{} // capacity 1: a Renew was answered
}

// term is the time of a lease, with its renewals. Its fields are guarded by lease.mu.
type term struct {
	until time.Duration
	ctx   context.Context // ends with the term; nil without one
	end   context.CancelCauseFunc
	begun chan struct{} // closed and replaced when a term begins
}

func newLease() *lease {
	return &lease{
		clock: uptime.SinceBoot, answered: make(chan struct{}, 1),
		whole: term{begun: make(chan struct{})}, sending: term{begun: make(chan struct{})},
	}
}

// begin is called before Run: a program under a debugger serves one host after the other.
func (l *lease) begin(limited, apart bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole.until, l.sending.until = 0, 0
	l.expire()
	l.limited, l.apart, l.epoch = limited, apart, math.MinInt64
}

// expire ends the terms that have expired, and returns how long the next one lasts; 0 if there is none. l.mu is held.
func (l *lease) expire() (next time.Duration) {
	now := l.clock()
	for _, t := range []*term{&l.whole, &l.sending} {
		switch {
		case t.ctx == nil:
		case now >= t.until:
			t.end(ErrLeaseExpired)
			t.ctx = nil
		case next == 0 || t.until-now < next:
			next = t.until - now
		}
	}
	return next
}

// watch ends terms that expire, until ctx ends.
func (l *lease) watch(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		next := l.expire()
		l.mu.Unlock()
		if next == 0 {
			next = leaseTick
		}
		look := time.NewTimer(min(next, leaseTick))
		select {
		case <-look.C:
		case <-ctx.Done():
		}
		look.Stop()
	}
}

// held returns a context that ends with the lease, or ErrLeaseExpired without one.
func (l *lease) held() (context.Context, error) { return l.in(&l.whole) }

// in is held for one of the terms.
func (l *lease) in(t *term) (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.limited {
		return context.Background(), nil
	}
	l.expire()
	if t.ctx == nil {
		return nil, ErrLeaseExpired
	}
	return t.ctx, nil
}

// granted reports whether the host grants leases.
func (l *lease) granted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limited
}

// left returns the rest of the lease.
func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.whole.until-l.clock(), 0)
}

// take obeys the host's answer to a Renew.
func (l *lease) take(answer *channelv1.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.limited {
		return nil
	}
	now := l.clock()
	if answer.GetMark() > uint64(now) {
		return status.Error(codes.InvalidArgument, "the lease has a mark that no Renew had")
	}
	if answer.GetEpoch() < l.epoch {
		return status.Errorf(codes.FailedPrecondition, "the lease has epoch %d, and an earlier one had epoch %d", answer.GetEpoch(), l.epoch)
	}
	l.expire()
	l.epoch = answer.GetEpoch()
	whole := answer.GetDuration().AsDuration()
	sending := whole
	if l.apart {
		sending = max(whole, answer.GetSending().AsDuration())
	}
	l.whole.extend(now, time.Duration(answer.GetMark()), whole)
	l.sending.extend(now, time.Duration(answer.GetMark()), sending)
	l.expire()
	select {
	case l.answered <- struct{}{}:
	default:
	}
	return nil
}

// extend makes a term last for a time since mark, and begins it if there is none.
func (t *term) extend(now, mark, lasts time.Duration) {
	used := min(max(lasts, 0), maxLease)
	t.until = mark + used - used/8 // the rest is for closing connections
	if t.ctx == nil && t.until > now {
		t.ctx, t.end = context.WithCancelCause(context.Background())
		close(t.begun)
		t.begun = make(chan struct{})
	}
}

// renew asks for leases until the stream ends. The next question waits for the answer to the last, so that a suspended host has one to
// answer.
func (l *lease) renew(ctx context.Context, send func(*channelv1.ReceiveResponse) error) {
	for {
		select {
		case <-l.answered: // to an earlier stream
		default:
		}
		mark := uint64(l.clock())
		if send(&channelv1.ReceiveResponse{Frame: &channelv1.ReceiveResponse_Renew{Renew: &channelv1.Renew{Mark: mark}}}) != nil {
			return // the stream has ended
		}
		select {
		case <-l.answered:
		case <-ctx.Done():
			return
		}
		pause := leaseRetry
		if left := l.left(); left > 0 {
			pause = max(left/3, leaseLeast)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// run calls f whenever there is a lease, with a context that ends with it, until ctx ends or f returns by itself. expired is called when a
// lease has expired.
func (l *lease) run(ctx context.Context, board *process.Board, expired func(), f func(context.Context) error) error {
	if !l.granted() {
		return f(ctx)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go l.watch(watching)
	for {
		term := l.await(ctx)
		if term == nil {
			return nil
		}
		if err := l.during(ctx, term, expired, f); ctx.Err() != nil || !errors.Is(err, ErrLeaseExpired) {
			return err
		}
		board.Status(StateConnecting, ErrLeaseExpired.Error())
	}
}

// await returns the term of the next lease; nil after ctx.
func (l *lease) await(ctx context.Context) context.Context {
	for {
		l.mu.Lock()
		begun := l.whole.begun
		l.mu.Unlock()
		if term, err := l.held(); err == nil {
			return term
		}
		select {
		case <-begun:
		case <-ctx.Done():
			return nil
		}
	}
}

// during calls f for one term. Its error is ErrLeaseExpired if f has returned because of the end of the term.
func (l *lease) during(ctx, term context.Context, expired func(), f func(context.Context) error) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	returned := make(chan error, 1)
	go func() { returned <- f(running) }() // ends with running, or else the process does
	select {
	case err := <-returned:
		if term.Err() == nil {
			return err
		}
		returned <- err
	case <-term.Done():
	}
	stop(ErrLeaseExpired)
	expired()
	select {
	case <-returned:
		return ErrLeaseExpired
	case <-time.After(leaveTime):
		return fmt.Errorf("run has not returned %v after the end of the host's lease", leaveTime)
	}
}

// leased derives the context of a call to the platform, or returns ErrLeaseExpired without a lease of calls. The call may go on for sendGrace after the
// lease; its Patience ends with the lease.
func (l *lease) leased(ctx context.Context) (context.Context, context.CancelFunc, error) {
	term, err := l.in(&l.sending)
	if err != nil {
		return nil, nil, err
	}
	if term.Done() == nil {
		return ctx, func() {}, nil
	}
	waits, impatient := context.WithCancelCause(Patience(ctx))
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(term, func() {
		impatient(ErrLeaseExpired)
		select {
		case <-time.After(sendGrace):
			cancel(ErrLeaseExpired)
		case <-ctx.Done():
		}
	})
	return context.WithValue(ctx, patienceKey{}, waits), func() { release(); impatient(nil); cancel(nil) }, nil
}
