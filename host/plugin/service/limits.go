package service

import (
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/host/store"
)

// Limits of one instance. Sizes are in bytes.
const (
	maxKey   = 256
	maxValue = 64 << 10
	maxList  = 1000 // keys of one list

	maxCalls        = 32   // at the same time
	callsPerSecond  = 1000 // on average
	callsAtOnce     = 4000
	writesPerSecond = 200 // each waits for the disk, as messages do
	writesAtOnce    = 1000

	maxMediaStreams = 8
	mediaIdle       = 30 * time.Second // between two frames
	mediaTimeout    = 10 * time.Minute // of a whole transfer

	maxCounters = 50            // names
	maxCount    = 1_000_000_000 // added at once
)

// valueRoom bounds the values of an instance.
func valueRoom() store.Room { return store.Room{Keys: 10_000, Bytes: 64 << 20} }

// account has the limiters of an instance. It outlives its processes, which could otherwise reset their limits by failing.
type account struct {
	calls, writes *rate.Limiter
	media         *rate.Limiter // bytes
	callSlots     chan struct{}
	mediaSlots    chan struct{}
	hookSlots     chan struct{}   // requests under way
	longSlots     chan struct{}   // those of them with a body above maxHookBody
	counters      map[string]bool // under Server.mu
}

func newAccount(mediaPerHour int64) *account {
	return &account{
		calls: rate.NewLimiter(callsPerSecond, callsAtOnce), writes: rate.NewLimiter(writesPerSecond, writesAtOnce),
		media:     rate.NewLimiter(rate.Limit(float64(mediaPerHour)/time.Hour.Seconds()), int(mediaPerHour)),
		callSlots: make(chan struct{}, maxCalls), mediaSlots: make(chan struct{}, maxMediaStreams),
		hookSlots: make(chan struct{}, maxHookCalls), longSlots: make(chan struct{}, maxLongCalls), counters: map[string]bool{},
	}
}

// take takes a slot if there is one.
func take(slots chan struct{}) (release func(), ok bool) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, true
	default:
		return nil, false
	}
}

// tooMuch is RESOURCE_EXHAUSTED with the time after which to try again.
func tooMuch(what string, retry time.Duration) error {
	s, err := status.New(codes.ResourceExhausted, what).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	if err != nil {
		return status.Error(codes.ResourceExhausted, what)
	}
	return s.Err()
}

// spend takes n from a limiter, or returns an error that says when to try again.
func spend(l *rate.Limiter, n int, what string) error {
	r := l.ReserveN(time.Now(), n)
	if !r.OK() {
		return status.Error(codes.ResourceExhausted, what)
	}
	if wait := r.Delay(); wait > 0 {
		r.Cancel()
		return tooMuch(what, wait)
	}
	return nil
}
