package store

import (
	"context"
	"errors"
)

// ErrNoRoom is returned for a value that would make an instance keep more than it may.
var ErrNoRoom = errors.New("no room for the value")

// Room is how much the values of an instance may take.
type Room struct {
	Keys  int
	Bytes int64 // of keys and values together
}

// Values keeps what plugin instances want to find again. It outlives plugins, their upgrades and their instances' places in the
// configuration.
type Values interface {
	// Value returns one value; ErrNotFound.
	Value(ctx context.Context, instance, key string) ([]byte, error)
	// SetValue writes one value if all of the instance's are within room afterwards; ErrNoRoom. One that takes less than what it
	// replaces always has room.
	SetValue(ctx context.Context, instance, key string, value []byte, room Room) error
	// DeleteValue removes one value; one that is not there is no error.
	DeleteValue(ctx context.Context, instance, key string) error
	// ListValues returns the keys that begin with prefix and come after a key, in byte order.
	ListValues(ctx context.Context, instance, prefix, after string, limit int) ([]string, error)
	// ValueUsage tells how much the values of an instance take.
	ValueUsage(ctx context.Context, instance string) (Room, error)
	// RemoveValues removes all values of an instance.
	RemoveValues(ctx context.Context, instance string) error
}
