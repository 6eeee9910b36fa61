package restart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/flynnhost/flynn/host/store"
)

// ending is a host that runs until it ends with an error.
type ending struct{ err error }

func (e ending) Run(context.Context) error { return e.err }
func (e ending) Next() *Plan               { return nil }

// TestServeAfterAFailover starts another host in the place of one whose database has failed over, and of no other that ends.
func TestServeAfterAFailover(t *testing.T) {
	last := fmt.Errorf("lease: %w", store.ErrFenced)
	ends := []error{fmt.Errorf("lease: %w", store.ErrFailedOver), fmt.Errorf("queue: %w", errors.Join(store.ErrFailedOver, context.Canceled)), last, nil}
	started := 0
	err := Serve(t.Context(), "flynn.toml", slog.New(slog.DiscardHandler), func(context.Context, Start) (Host, error) {
		started++
		return ending{ends[started-1]}, nil
	})
	if started != 3 || !errors.Is(err, last) {
		t.Errorf("%d hosts were started; the error is %v", started, err)
	}
}
