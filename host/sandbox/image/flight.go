package image

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// flights let callers that request the same work share it. Unlike with singleflight of x/sync, a caller may leave, all callers get the
// notices, and work is cancelled and waited for once nobody waits for it.
type flights struct {
	timeout time.Duration

	mu   sync.Mutex
	open map[string]*flight
}

// flight is work in progress.
type flight struct {
	machine.Audience
	cancel    context.CancelFunc
	done      chan struct{}
	err       error // valid once done is closed
	waiting   int   // callers; guarded by flights.mu
	abandoned bool  // the last caller has left; guarded by flights.mu
}

// do runs work once for all callers that request the key while it is in progress.
func (f *flights) do(ctx context.Context, key string, work func(context.Context) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		fl, ok := f.board(key, work)
		if ok {
			return f.await(ctx, fl)
		}
		select { // it is being cancelled: start again when it has ended
		case <-fl.done:
		case <-ctx.Done():
		}
	}
}

// board joins the flight of the key or starts one. ok is false if that flight is abandoned.
func (f *flights) board(key string, work func(context.Context) error) (fl *flight, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.open[key]; fl != nil {
		if !fl.abandoned {
			fl.waiting++
		}
		return fl, !fl.abandoned
	}
	fl = &flight{done: make(chan struct{}), waiting: 1}
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	fl.cancel = cancel
	if f.open == nil {
		f.open = make(map[string]*flight)
	}
	f.open[key] = fl
	go func() { // await returns to the last caller only after this goroutine has ended
		defer cancel()
		err := work(machine.WithNotice(ctx, fl.Tell))
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("not done after %v: %w", f.timeout, err)
		}
		f.mu.Lock()
		delete(f.open, key)
		f.mu.Unlock()
		fl.err = err
		close(fl.done)
	}()
	return fl, true
}

// await waits for the flight's end. The last caller that leaves early cancels it and waits for it.
func (f *flights) await(ctx context.Context, fl *flight) error {
	defer fl.Join(ctx)()
	select {
	case <-fl.done:
		return fl.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	fl.waiting--
	fl.abandoned = fl.waiting == 0
	last := fl.abandoned
	f.mu.Unlock()
	if last {
		fl.cancel()
		<-fl.done
	}
	return ctx.Err()
}

// randomName returns a random name for a container.
func randomName() string { return strings.ToLower(rand.Text()[:16]) }
