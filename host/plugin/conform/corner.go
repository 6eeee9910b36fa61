package conform

import (
	"context"

	"github.com/flynnhost/flynn/host/store"
)

// corner is one check's part of the store that all checks of a run share: a store of its own for each would take longer than most
// checks. What a check keeps is out of the others' sight.
type corner struct {
	values store.Values
	check  string
}

var _ store.Values = corner{}

func (c corner) of(instance string) string { return c.check + "/" + instance }

// Value implements store.Values.
func (c corner) Value(ctx context.Context, instance, key string) ([]byte, error) {
	return c.values.Value(ctx, c.of(instance), key)
}

// SetValue implements store.Values.
func (c corner) SetValue(ctx context.Context, instance, key string, value []byte, room store.Room) error {
	return c.values.SetValue(ctx, c.of(instance), key, value, room)
}

// DeleteValue implements store.Values.
func (c corner) DeleteValue(ctx context.Context, instance, key string) error {
	return c.values.DeleteValue(ctx, c.of(instance), key)
}

// ListValues implements store.Values.
func (c corner) ListValues(ctx context.Context, instance, prefix, after string, limit int) ([]string, error) {
	return c.values.ListValues(ctx, c.of(instance), prefix, after, limit)
}

// ValueUsage implements store.Values.
func (c corner) ValueUsage(ctx context.Context, instance string) (store.Room, error) {
	return c.values.ValueUsage(ctx, c.of(instance))
}

// RemoveValues implements store.Values.
func (c corner) RemoveValues(ctx context.Context, instance string) error {
	return c.values.RemoveValues(ctx, c.of(instance))
}
