package conform

import (
	"context"

	"github.com/flynnhost/flynn/host/store"
)

// namespace is one check's part of the store that all checks of a run share: opening a store for each would take longer than most checks.
// A check cannot see the values of another.
type namespace struct {
	values store.Values
	check  string
}

var _ store.Values = namespace{}

func (c namespace) of(instance string) string { return c.check + "/" + instance }

// Value implements store.Values.
func (c namespace) Value(ctx context.Context, instance, key string) ([]byte, error) {
	return c.values.Value(ctx, c.of(instance), key)
}

// SetValue implements store.Values.
func (c namespace) SetValue(ctx context.Context, instance, key string, value []byte, room store.Room) error {
	return c.values.SetValue(ctx, c.of(instance), key, value, room)
}

// DeleteValue implements store.Values.
func (c namespace) DeleteValue(ctx context.Context, instance, key string) error {
	return c.values.DeleteValue(ctx, c.of(instance), key)
}

// ListValues implements store.Values.
func (c namespace) ListValues(ctx context.Context, instance, prefix, after string, limit int) ([]string, error) {
	return c.values.ListValues(ctx, c.of(instance), prefix, after, limit)
}

// ValueUsage implements store.Values.
func (c namespace) ValueUsage(ctx context.Context, instance string) (store.Room, error) {
	return c.values.ValueUsage(ctx, c.of(instance))
}

// RemoveValues implements store.Values.
func (c namespace) RemoveValues(ctx context.Context, instance string) error {
	return c.values.RemoveValues(ctx, c.of(instance))
}
