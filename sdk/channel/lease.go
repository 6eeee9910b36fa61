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
	limited  bool  // the host grants leases
	epoch    int64 // the highest so far
	until    time.Duration
	term     context.Context // ends with the lease; nil without one
	end      context.CancelCauseFunc
	begun    chan struct{} // closed and replaced when a term begins
	answered chan struct{} // capacity 1: a Renew was answered
}

func newLease() *lease {
	return &lease{clock: uptime.SinceBoot, begun: make(chan struct{}), answered: make(chan struct{}, 1)}
}

// begin is called before Run: a program under a debugger serves one host after the other.
func (l *lease) begin(limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = 0
	l.expire()
	l.limited, l.epoch = limited, math.MinInt64
}

// expire ends the term if the lease has expired. l.mu is held.
func (l *lease) expire() {
	if l.term != nil && l.clock() >= l.until {
		l.end(ErrLeaseExpired)
		l.term = nil
	}
}

// held returns a context that ends with the lease, or ErrLeaseExpired without one.
func (l *lease) held() (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.limited {
		return context.Background(), nil
	}
	l.expire()
	if l.term == nil {
		return nil, ErrLeaseExpired
	}
	return l.term, nil
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
	return max(l.until-l.clock(), 0)
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
	used := min(max(answer.GetDuration().AsDuration(), 0), maxLease)
	l.until = time.Duration(answer.GetMark()) + used - used/8 // the rest is for closing connections
	if l.term == nil && l.until > now {
		l.term, l.end = context.WithCancelCause(context.Background())
		close(l.begun)
		l.begun = make(chan struct{})
	}
	l.expire()
	select {
	case l.answered <- struct{}{}:
	default:
	}
	return nil
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
		begun := l.begun
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
	for term.Err() == nil {
		look := time.NewTimer(min(max(l.left(), time.Millisecond), leaseTick))
		select {
		case err := <-returned:
			look.Stop()
			if term.Err() == nil {
				return err
			}
			returned <- err
		case <-look.C:
			_, _ = l.held() // ends the term if the lease has expired
		case <-term.Done():
		}
		look.Stop()
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

// leased derives the context of a call to the platform, or returns ErrLeaseExpired without a lease. The call may go on for sendGrace after the
// lease; its Patience ends with the lease.
func (l *lease) leased(ctx context.Context) (context.Context, context.CancelFunc, error) {
	term, err := l.held()
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
