package cache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/sdk/cache"
)

func TestMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cache.Map[string, int]{Most: 2}
		has := func(key string, want int) {
			t.Helper()
			if got, ok := m.Get(key); got != want || ok != (want != 0) {
				t.Errorf("%s is %d, %v, want %d", key, got, ok, want)
			}
		}
		has("a", 0)
		m.Set("a", 1, time.Minute)
		m.Set("b", 2, 0)
		m.Set("b", 3, 0) // no new entry
		has("a", 1)
		time.Sleep(time.Minute)
		has("a", 0)
		m.Set("c", 4, 0) // takes the room of a
		has("b", 3)
		has("c", 4)
		m.Set("d", 5, 0) // nothing has expired
		has("b", 0)
		has("d", 5)
		m.Delete("d")
		has("d", 0)
	})
}
