package hostapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// call makes one call of a method of the host.
func call[Q, A any](ctx context.Context, h *Host, doing string, method func(hostv1.HostClient, context.Context, *Q, ...grpc.CallOption) (*A, error), r *Q) (*A, error) {
	c, err := h.service()
	if err != nil {
		return nil, err
	}
	out, err := method(c, ctx, r)
	if err != nil {
		return nil, failed(doing, err)
	}
	return out, nil
}

// Get reads one key of the instance. It requires the permission "kv".
func (h *Host) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	out, err := call(ctx, h, "get value", hostv1.HostClient.GetValue, &hostv1.GetValueRequest{Key: key})
	return out.GetValue(), out.GetFound(), err
}

// Set writes one key of at most 256 bytes, with at most 64 KiB; it is durable when Set returns. It requires the permission "kv".
func (h *Host) Set(ctx context.Context, key string, value []byte) error {
	_, err := call(ctx, h, "set value", hostv1.HostClient.SetValue, &hostv1.SetValueRequest{Key: key, Value: value})
	return err
}

// Delete removes one key; it is not an error if the key does not exist. It requires the permission "kv".
func (h *Host) Delete(ctx context.Context, key string) error {
	_, err := call(ctx, h, "delete value", hostv1.HostClient.DeleteValue, &hostv1.DeleteValueRequest{Key: key})
	return err
}

// Keys lists the keys that begin with prefix, in byte order. It requires the permission "kv".
func (h *Host) Keys(ctx context.Context, prefix string) ([]string, error) {
	var all []string
	for r := (&hostv1.ListKeysRequest{Prefix: prefix}); ; r.After = all[len(all)-1] {
		out, err := call(ctx, h, "list keys", hostv1.HostClient.ListKeys, r)
		if err != nil {
			return nil, err
		}
		if len(out.GetKeys()) == 0 {
			return all, nil
		}
		all = append(all, out.GetKeys()...)
	}
}

// Count adds n to a counter of the instance; name has at most 40 of a-z, 0-9 and _. It requires the permission "metric".
func (h *Host) Count(ctx context.Context, name string, n uint64) error {
	_, err := call(ctx, h, "count", hostv1.HostClient.Count, &hostv1.CountRequest{Name: name, Add: n})
	return err
}
