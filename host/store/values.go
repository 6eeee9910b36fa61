package store

import (
	"context"
	"errors"
)

// ErrNoRoom is returned for a value that would exceed an instance's bound.
var ErrNoRoom = errors.New("no room for the value")

// Room bounds the values of an instance.
type Room struct {
	Keys  int
	Bytes int64 // of keys and values together
}

// Values stores what plugin instances keep. It outlives plugins, their upgrades and the configuration of their instances.
type Values interface {
	// Value returns a value, or ErrNotFound.
	Value(ctx context.Context, instance, key string) ([]byte, error)
	// SetValue writes a value if all values of the instance are within room afterwards, and returns ErrNoRoom otherwise. A value that is
	// smaller than the one it replaces always fits.
	SetValue(ctx context.Context, instance, key string, value []byte, room Room) error
	// DeleteValue deletes a value. It is no error if there is none.
	DeleteValue(ctx context.Context, instance, key string) error
	// ListValues returns the keys with the prefix that come after a key, in byte order.
	ListValues(ctx context.Context, instance, prefix, after string, limit int) ([]string, error)
	// ValueUsage returns the size of an instance's values.
	ValueUsage(ctx context.Context, instance string) (Room, error)
	// RemoveValues removes all values of an instance.
	RemoveValues(ctx context.Context, instance string) error
}
