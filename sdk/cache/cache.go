// Package cache stores a bounded number of values by key.
//
// Start with Map. It is for values that a plugin may forget without harm, such as the names of people.
package cache

import (
	"maps"
	"sync"
	"time"
)

// Map is a map with at most Most entries. When it is full, expired entries are removed, or all others if none has expired. Its methods may
// be called from many goroutines.
type Map[K comparable, V any] struct {
	Most int

	mu      sync.Mutex
	entries map[K]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time // zero: it does not expire
}

func (e entry[V]) expired() bool { return !e.until.IsZero() && !time.Now().Before(e.until) }

// Get returns the value of key and reports whether there is one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok || e.expired() {
		return value, false
	}
	return e.value, true
}

// Set stores a value for the duration kept; 0 keeps it as long as there is room.
func (m *Map[K, V]) Set(key K, value V, kept time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.entries[key]; !known && len(m.entries) >= m.Most {
		maps.DeleteFunc(m.entries, func(_ K, e entry[V]) bool { return e.expired() })
		if len(m.entries) >= m.Most {
			clear(m.entries)
		}
	}
	if m.entries == nil {
		m.entries = map[K]entry[V]{}
	}
	e := entry[V]{value: value}
	if kept > 0 {
		e.until = time.Now().Add(kept)
	}
	m.entries[key] = e
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}
