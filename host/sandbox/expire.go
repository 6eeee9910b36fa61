package sandbox

import (
	"context"
	"sync"
	"time"
)

// Run keeps the pools filled and ends idle containers until ctx ends. Without it Get still works.
func (m *Manager) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { m.pools.run(ctx) })
	running.Go(func() { m.expire(ctx) })
	running.Wait()
	return ctx.Err()
}

// expire looks for idle containers.
func (m *Manager) expire(ctx context.Context) {
	tick := time.NewTicker(max(min(m.config.IdleAfter/4, time.Minute), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			m.evictIdle(now)
		}
	}
}

func (m *Manager) evictIdle(now time.Time) {
	m.mu.Lock()
	all := make([]*Session, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		since, idle := s.idleSince()
		if !idle || now.Sub(since) < m.config.IdleAfter && now.Sub(s.born()) < m.config.MaxAge {
			continue
		}
		m.log.Info("ending an idle sandbox", "session", s.session, "sandbox", s.name)
		if err := s.evict(); err != nil {
			m.log.Error("idle sandbox could not be ended", "session", s.session, "error", err)
		}
	}
}
