// Package event is the bus for observers: metrics, spans, live views and logs.
//
// Start with On. An area declares its events as types (agent.TurnEnded, channel.Delivered), publishes values of them on the Bus of its
// Config, and does not know the subscribers. An area that needs an answer defines an interface instead.
package event

import (
	"reflect"
	"sync"
)

// Bus hands events to the functions that subscribed to their type, in the order of their subscriptions. The zero value is ready for use,
// and a nil Bus has no subscribers. Its methods are safe for concurrent use.
type Bus struct {
	mu          sync.RWMutex
	subscribers map[reflect.Type][]func(any)
}

// Only returns a bus with one subscriber.
func Only[E any](f func(E)) *Bus {
	var b Bus
	On(&b, f)
	return &b
}

// On subscribes f to the events of type E. f is called on the publisher's goroutine, where locks may be held: it must not block, and must
// not call the publisher.
func On[E any](b *Bus, f func(E)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = map[reflect.Type][]func(any){}
	}
	of := reflect.TypeFor[E]()
	b.subscribers[of] = append(b.subscribers[of], func(e any) { f(e.(E)) })
}

// Publish calls the functions that subscribed to the type of e.
func (b *Bus) Publish(e any) {
	if b == nil {
		return
	}
	b.mu.RLock()
	subscribers := b.subscribers[reflect.TypeOf(e)]
	b.mu.RUnlock()
	for _, f := range subscribers {
		f(e)
	}
}
