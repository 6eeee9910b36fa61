package sqlstore_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// A reader that asks after a change of a scope sees it, whatever others read meanwhile.
func TestScopesAreKnownAsTheyAre(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var over atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !over.Load() {
				if _, err := s.Scope(t.Context(), "irc:ann"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for epoch := 2; epoch < 30; epoch++ {
		if err := s.SetScope(t.Context(), turnlog.Scope{Key: "irc:ann", Epoch: epoch}); err != nil {
			t.Error(err)
		}
		if p, err := s.Scope(t.Context(), "irc:ann"); err != nil || p.Epoch != epoch {
			t.Fatalf("epoch is %d (%v), want %d", p.Epoch, err, epoch)
		}
	}
	over.Store(true)
	readers.Wait()
}
