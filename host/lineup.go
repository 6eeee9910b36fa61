package host

import (
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/plugin"
)

// lineup is how instances of one kind are brought in line with a configuration; T is what the configuration says of one.
type lineup[T any] struct {
	host    *Host
	enabled func(T) bool
	same    func(a, b T) bool // to its process
	start   func(name string, c T) error
	ended   func(name string) // after its process; nil does nothing
}

// set ends what is gone or has changed, and starts what is new. What stays gets another chance, where it is in quarantine.
func (l lineup[T]) set(before, next map[string]T) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if was := before[name]; l.enabled(was) && !l.same(was, next[name]) {
			l.end(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		c := next[name]
		if l.same(before[name], c) {
			l.host.release(name)
			continue
		}
		if !l.enabled(c) {
			continue
		}
		if err := l.start(name, c); err != nil {
			l.host.log.Error("start plugin instance", "instance", name, "error", err)
		}
	}
}

func (l lineup[T]) end(name string) {
	if err := l.host.plugins.Remove(name); err != nil {
		l.host.log.Error("stop plugin instance", "instance", name, "error", err)
	}
	if l.ended != nil {
		l.ended(name)
	}
}

// release gives a quarantined instance another chance: who asks for a reload may have mended what was wrong with its plugin.
func (h *Host) release(name string) {
	for _, s := range h.plugins.Status() {
		if s.Name != name || s.State != plugin.Quarantined {
			continue
		}
		h.log.Info("quarantined plugin instance gets another chance", "instance", name)
		if err := h.plugins.Restart(name); err != nil {
			h.log.Error("restart plugin instance", "instance", name, "error", err)
		}
	}
}
