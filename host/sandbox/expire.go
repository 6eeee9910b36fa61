package sandbox

import (
	"context"
	"sync"
	"time"
)

// Run keeps the pools filled, looks after idle containers and reconciles until ctx ends. Without it Get still works.
func (m *Manager) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { m.pools.Run(ctx) })
	running.Go(func() { m.expire(ctx) })
	running.Go(func() { m.keepTidy(ctx) })
	running.Go(func() { m.reaper.Run(ctx) })
	running.Wait()
	return ctx.Err()
}

// expire looks for idle containers.
func (m *Manager) expire(ctx context.Context) {
	shortest := m.config.IdleAfter
	if m.config.PauseAfter > 0 {
		shortest = min(shortest, m.config.PauseAfter)
	}
	tick := time.NewTicker(max(min(shortest/4, time.Minute), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			m.lookAfterIdle(now)
		case <-m.look:
			m.lookAfterIdle(time.Now())
		}
	}
}

// lookSoon has the next look come at once.
func (m *Manager) lookSoon() {
	select {
	case m.look <- struct{}{}:
	default:
	}
}

// lookAfterIdle pauses what has been idle for some time, and ends what has been so for long, or is old. Containers are
// dealt with side by side: one that the engine does not let go holds up some others, and not all.
func (m *Manager) lookAfterIdle(now time.Time) {
	_ = each(m.all(), func(s *Session) error {
		since, idle := s.idleSince()
		if !idle {
			return nil
		}
		switch rest := now.Sub(since); {
		case rest >= m.config.IdleAfter || now.Sub(s.born()) >= m.config.MaxAge:
			m.evictIdle(s)
		case m.config.PauseAfter > 0 && rest >= m.config.PauseAfter:
			m.pauseIdle(s)
		}
		return nil
	})
}

func (m *Manager) evictIdle(s *Session) {
	b := s.dismissIdle()
	if b == nil {
		return
	}
	m.log.Info("ending an idle sandbox", "session", s.session, "sandbox", s.name)
	if err := b.remove(errEnded); err != nil {
		m.log.Error("cannot end an idle sandbox", "session", s.session, "error", err)
	}
}

func (m *Manager) pauseIdle(s *Session) {
	if b := s.markForPause(); b != nil {
		m.log.Debug("pausing an idle sandbox", "session", s.session, "sandbox", s.name)
		b.beginPause()
	}
}
