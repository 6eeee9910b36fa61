package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// hanging is a store that hangs at every other commit. A commit that is given up happens all the same.
type hanging struct {
	Store
	takes time.Duration
	hung  bool
}

func (s *hanging) CommitTurn(ctx context.Context, c store.Commit) error {
	if s.hung = !s.hung; !s.hung {
		return s.Store.CommitTurn(ctx, c)
	}
	done := make(chan error, 1)
	go func() { // ends with the commit
		time.Sleep(s.takes)
		done <- s.Store.CommitTurn(context.WithoutCancel(ctx), c)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		time.Sleep(s.takes)
		return ctx.Err()
	}
}

// TestASlowCommitIsNotTakenForSomebodyElses has a disk that hangs for longer than anybody would wait. The commit of each step
// and of the reply happens in the end, and the reply is handed on.
func TestASlowCommitIsNotTakenForSomebodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, openStore(t), func(s Store) Store { return &hanging{Store: s, takes: time.Minute} })
		h.gen.Limits.Time = time.Hour
		h.accept("ann", "!touch wood")
		h.work(t.Context())
		h.want("did: touched wood")
		if items, err := Recover(t.Context(), h.store); len(items) != 0 || err != nil {
			t.Fatalf("left over: %+v, %v", items, err)
		}
	})
}
