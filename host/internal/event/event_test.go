package event

import (
	"slices"
	"sync"
	"testing"
)

type (
	began struct{ turn string }
	ended struct{ turn string }
)

func TestEachTypeHasItsSubscribers(t *testing.T) {
	var b Bus
	var got []string
	On(&b, func(e began) { got = append(got, "first saw "+e.turn) })
	On(&b, func(e began) { got = append(got, "second saw "+e.turn) })
	On(&b, func(e ended) { got = append(got, "end of "+e.turn) })
	b.Publish(began{"a"})
	b.Publish(&ended{"b"}) // a pointer is another type
	b.Publish(ended{"a"})
	b.Publish("nobody subscribed to strings")
	if want := []string{"first saw a", "second saw a", "end of a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNilBusHasNoSubscribers(*testing.T) {
	var b *Bus
	b.Publish(began{"a"})
}

func TestSubscribeWhileOthersPublish(t *testing.T) {
	var b Bus
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				b.Publish(began{})
			}
		})
		wg.Go(func() { On(&b, func(began) {}) })
	}
	wg.Wait()
	seen := false
	On(&b, func(began) { seen = true })
	if b.Publish(began{}); !seen {
		t.Error("the last subscriber saw nothing")
	}
}
