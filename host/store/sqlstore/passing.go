package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// readPatience is how long a read is retried that fails for lack of resources, such as descriptors or a connection.
const readPatience = 30 * time.Second

// patiently retries a read that fails for lack of resources. After readPatience the error is a store.ErrPassing.
func patiently[T any](ctx context.Context, db Reads, read func() (T, error)) (T, error) {
	wait := 20 * time.Millisecond
	for left := readPatience; ; wait = min(2*wait, time.Second) {
		v, err := read()
		if err == nil || !db.Passing(err) {
			return v, err
		}
		err = fmt.Errorf("%w: %w", store.ErrPassing, err)
		if left -= wait; left < 0 {
			return v, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return v, errors.Join(ctx.Err(), err)
		}
	}
}
