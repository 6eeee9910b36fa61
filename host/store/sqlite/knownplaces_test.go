package sqlite

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// A reader that asks after a change of a place was made sees it, whatever others read meanwhile.
func TestPlacesAreKnownAsTheyAre(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var over atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !over.Load() {
				if _, err := s.Place(t.Context(), "irc:ann"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for epoch := 2; epoch < 30; epoch++ {
		if err := s.SetPlace(t.Context(), turnlog.Place{Key: "irc:ann", Epoch: epoch}); err != nil {
			t.Error(err)
		}
		if p, err := s.Place(t.Context(), "irc:ann"); err != nil || p.Epoch != epoch {
			t.Fatalf("epoch is %d (%v), want %d", p.Epoch, err, epoch)
		}
	}
	over.Store(true)
	readers.Wait()
}

func TestKnownPlacesAreBounded(t *testing.T) {
	var k knownPlaces
	for i := range 3 * maxKnownPlaces {
		k.keep(turnlog.Place{Key: string(rune(i))}, 0)
	}
	if len(k.byKey) > maxKnownPlaces {
		t.Errorf("%d are known", len(k.byKey))
	}
}
