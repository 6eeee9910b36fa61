package hostapi

import (
	"context"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// Get reads one key of the instance. Permission "kv".
func (h *Host) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	c, err := h.service()
	if err != nil {
		return nil, false, err
	}
	out, err := c.GetValue(ctx, &hostv1.GetValueRequest{Key: key})
	if err != nil {
		return nil, false, failed("get value", err)
	}
	return out.GetValue(), out.GetFound(), nil
}

// Set writes one key of at most 256 bytes, with at most 64 KiB; it is durable when Set returns. Permission "kv".
func (h *Host) Set(ctx context.Context, key string, value []byte) error {
	c, err := h.service()
	if err != nil {
		return err
	}
	if _, err := c.SetValue(ctx, &hostv1.SetValueRequest{Key: key, Value: value}); err != nil {
		return failed("set value", err)
	}
	return nil
}

// Delete removes one key; one that is not there is no error. Permission "kv".
func (h *Host) Delete(ctx context.Context, key string) error {
	c, err := h.service()
	if err != nil {
		return err
	}
	if _, err := c.DeleteValue(ctx, &hostv1.DeleteValueRequest{Key: key}); err != nil {
		return failed("delete value", err)
	}
	return nil
}

// Keys lists the keys that begin with prefix, in byte order. Permission "kv".
func (h *Host) Keys(ctx context.Context, prefix string) ([]string, error) {
	c, err := h.service()
	if err != nil {
		return nil, err
	}
	var all []string
	for {
		r := &hostv1.ListKeysRequest{Prefix: prefix}
		if len(all) > 0 {
			r.After = all[len(all)-1]
		}
		out, err := c.ListKeys(ctx, r)
		if err != nil {
			return nil, failed("list keys", err)
		}
		if len(out.GetKeys()) == 0 {
			return all, nil
		}
		all = append(all, out.GetKeys()...)
	}
}

// Count adds n to a counter of the instance; name has at most 40 of a-z, 0-9 and _. Permission "metric".
func (h *Host) Count(ctx context.Context, name string, n uint64) error {
	c, err := h.service()
	if err != nil {
		return err
	}
	if _, err := c.Count(ctx, &hostv1.CountRequest{Name: name, Add: n}); err != nil {
		return failed("count", err)
	}
	return nil
}
