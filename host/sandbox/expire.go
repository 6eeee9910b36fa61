package sandbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/reaper"
)

// idleWatch pauses containers that have been idle for some time, and ends those that have been idle for long or are too old.
type idleWatch struct {
	sessions   *registry
	idleAfter  time.Duration
	maxAge     time.Duration
	pauseAfter time.Duration
	log        *slog.Logger
	look       chan struct{} // wakes run, buffered
}

func newIdleWatch(c Config, sessions *registry) *idleWatch {
	return &idleWatch{sessions: sessions, idleAfter: c.IdleAfter, maxAge: c.MaxAge, pauseAfter: c.PauseAfter, log: c.Log, look: make(chan struct{}, 1)}
}

// run checks for idle containers until ctx ends.
func (w *idleWatch) run(ctx context.Context) {
	shortest := w.idleAfter
	if w.pauseAfter > 0 {
		shortest = min(shortest, w.pauseAfter)
	}
	tick := time.NewTicker(max(min(shortest/4, time.Minute), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			w.lookAfter(now)
		case <-w.look:
			w.lookAfter(time.Now())
		}
	}
}

// lookSoon makes run check at once.
func (w *idleWatch) lookSoon() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// lookAfter handles the containers concurrently, so that one that the engine cannot remove delays few others.
func (w *idleWatch) lookAfter(now time.Time) {
	_ = reaper.Each(w.sessions.all(), func(s *Session) error {
		c := s.current()
		if c == nil {
			return nil
		}
		since, idle := c.Idle()
		if !idle {
			return nil
		}
		switch rest := now.Sub(since); {
		case rest >= w.idleAfter || now.Sub(c.Born()) >= w.maxAge:
			w.evict(s)
		case w.pauseAfter > 0 && rest >= w.pauseAfter && c.MarkIdle():
			w.log.Debug("pausing an idle sandbox", "session", s.session, "sandbox", s.name)
			c.Pause()
		}
		return nil
	})
}

// evict ends a session's container if it is idle; the next call gets a new one.
func (w *idleWatch) evict(s *Session) {
	c := s.current()
	if c == nil || !c.Dismiss() {
		return
	}
	w.log.Info("ending an idle sandbox", "session", s.session, "sandbox", s.name)
	if err := c.End(); err != nil {
		w.log.Error("cannot end an idle sandbox", "session", s.session, "error", err)
	}
}
