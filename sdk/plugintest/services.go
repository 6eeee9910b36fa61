package plugintest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"sync"

	"github.com/flynnhost/flynn/sdk/channel"
)

// Services are the host's services for a plugin, in memory: values, media, webhooks, counters. They outlive a plugin: pass those of one
// Host to the next one by Config.Services, and it finds what the first has left.
type Services struct {
	mu       sync.Mutex
	values   map[string][]byte
	media    map[string]stored
	counters map[string]uint64
	hooks    map[string]*hook // by path
	changed  chan struct{}    // closed and replaced when a hook is added or removed
}

// stored is stored media.
type stored struct {
	name, mediaType string
	body            []byte
}

// NewServices returns empty services.
func NewServices() *Services {
	return &Services{
		values: map[string][]byte{}, media: map[string]stored{}, counters: map[string]uint64{}, hooks: map[string]*hook{},
		changed: make(chan struct{}),
	}
}

// Services returns those of Config.Services, or the Host's own.
func (h *process) Services() *Services { return h.config.Services }

// Value returns the value that the plugin has written for a key.
func (s *Services) Value(key string) (value []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found = s.values[key]
	return bytes.Clone(value), found
}

// Values returns all values that the plugin has written.
func (s *Services) Values() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for key, value := range s.values {
		out[key] = string(value)
	}
	return out
}

// SetValue writes a key as an earlier process of the plugin might have.
func (s *Services) SetValue(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = bytes.Clone(value)
}

// PutMedia stores media for the plugin to open, and returns its digest. Only the name and type of m are used.
func (s *Services) PutMedia(m channel.Media, body []byte) (digest string) {
	sum := sha256.Sum256(body)
	digest = hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.media[digest] = stored{m.Name, m.Type, bytes.Clone(body)}
	return digest
}

// Media returns media that the plugin or the test has stored.
func (s *Services) Media(digest string) (m channel.Media, body []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, found := s.media[digest]
	return channel.Media{Name: it.name, Type: it.mediaType, Size: int64(len(it.body)), SHA256: digest}, bytes.Clone(it.body), found
}

// Counters returns the plugin's counters, by name.
func (s *Services) Counters() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counters)
}
