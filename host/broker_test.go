package host

import (
	"testing"

	"github.com/flynnhost/flynn/host/message"
)

func TestBroker(t *testing.T) {
	b := newBroker()
	here := message.Event{Channel: "web", Conversation: "a", Text: "x"}
	watch, stop := b.subscribe("web", "a")
	other, stopOther := b.subscribe("web", "b")
	defer stopOther()
	b.publish(here)
	if got := <-watch; got.Text != "x" {
		t.Fatalf("got %+v", got)
	}
	if len(other) != 0 {
		t.Fatal("heard another conversation")
	}
	stop()
	stop() // a second time does nothing
	if _, open := <-watch; open {
		t.Fatal("a watcher that left is not closed")
	}
	b.publish(here) // to nobody
	if len(b.watchers) != 1 {
		t.Fatalf("%d conversations are watched, want 1", len(b.watchers))
	}
}

func TestSlowWatcherIsCutOff(t *testing.T) {
	b := newBroker()
	slow, stop := b.subscribe("web", "a")
	defer stop()
	for range watcherBuffer + 1 {
		b.publish(message.Event{Channel: "web", Conversation: "a"})
	}
	n := 0
	for range slow {
		n++
	}
	if n != watcherBuffer {
		t.Fatalf("got %d events before the end, want %d", n, watcherBuffer)
	}
}
