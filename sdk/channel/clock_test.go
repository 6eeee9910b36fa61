package channel

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/uptime"
)

// TestASuspensionEndsALease: the process or the machine was stopped for longer than the lease. The first look at it finds that, before any timer
// has fired.
func TestASuspensionEndsALease(t *testing.T) {
	now := 100 * time.Hour
	l := newLease()
	l.clock = func() time.Duration { return now }
	l.begin(true, false)
	if _, err := l.held(); !errors.Is(err, ErrLeaseExpired) {
		t.Fatalf("before the first lease: %v", err)
	}
	grant := func(epoch int64, mark, length time.Duration) error {
		return l.take(&channelv1.Lease{Epoch: epoch, Duration: durationpb.New(length), Mark: uint64(mark)})
	}
	if err := grant(-3, now, 8*time.Second); err != nil { // any number is an epoch
		t.Fatal(err)
	}
	term, err := l.held()
	if err != nil || l.left() != 7*time.Second {
		t.Fatalf("%v left, %v", l.left(), err)
	}
	call, cancel, err := l.leased(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	now += 7 * time.Second // while nothing runs
	if _, _, err := l.leased(t.Context()); !errors.Is(err, ErrLeaseExpired) {
		t.Errorf("a call after the suspension: %v", err)
	}
	if !errors.Is(context.Cause(term), ErrLeaseExpired) {
		t.Errorf("the term ended with %v", context.Cause(term))
	}
	<-Patience(call).Done()
	<-call.Done()
	if cause := context.Cause(call); !errors.Is(cause, ErrLeaseExpired) {
		t.Errorf("the call ended with %v", cause)
	}
	if err := grant(-3, now-7*time.Second, 8*time.Second); err != nil { // it was on its way
		t.Error(err)
	}
	if _, err := l.held(); !errors.Is(err, ErrLeaseExpired) {
		t.Errorf("after a late answer: %v", err)
	}
	for what, err := range map[codes.Code]error{
		codes.FailedPrecondition: grant(-4, now, time.Second),
		codes.InvalidArgument:    grant(-3, now+1, time.Second),
		codes.OK:                 grant(7, now, 1<<62),
	} {
		if status.Code(err) != what {
			t.Errorf("got %v, want %v", err, what)
		}
	}
	if l.left() > maxLease {
		t.Errorf("a lease of %v", l.left())
	}
}

// TestTheClockGoesOn: it counts as time does, here where nothing is suspended.
func TestTheClockGoesOn(t *testing.T) {
	wall, clock := time.Now(), uptime.SinceBoot()
	time.Sleep(20 * time.Millisecond)
	if gone, want := uptime.SinceBoot()-clock, time.Since(wall); gone <= 0 || gone > want+time.Second {
		t.Errorf("%v, want %v", gone, want)
	}
}
