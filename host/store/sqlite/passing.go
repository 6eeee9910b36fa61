package sqlite

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	lib "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/flynnhost/flynn/host/store"
)

// readPatience is how long a read is retried that fails for lack of resources, such as descriptors.
const readPatience = 30 * time.Second

// patiently retries a read that fails for lack of resources. After readPatience the error is a store.ErrPassing.
func patiently[T any](ctx context.Context, read func() (T, error)) (T, error) {
	wait := 20 * time.Millisecond
	for left := readPatience; ; wait = min(2*wait, time.Second) {
		v, err := read()
		if err == nil || !passing(err) {
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

// passing reports whether an error is a temporary lack of resources rather than damage.
func passing(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC} {
		if errors.Is(err, lack) {
			return true
		}
	}
	var e *lib.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff { // the rest of the bits say more
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_NOMEM, codes.SQLITE_IOERR, codes.SQLITE_FULL, codes.SQLITE_CANTOPEN, codes.SQLITE_PROTOCOL:
		return true
	}
	return false
}
