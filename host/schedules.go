package host

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// newScheduler makes the scheduler with the schedules of a configuration.
func (h *Host) newScheduler(c *config.Config) *schedule.Scheduler {
	s := schedule.New(schedule.Config{
		Store: h.store, Log: h.log, Replied: h.outbox.Push,
		Submit: func(ctx context.Context, m message.Message) error { return h.inbox.Accept(ctx, m) },
	})
	s.Set(schedule.Entries(c))
	return s
}

// replied hands on a turn's reply, and has the scheduler look when it is one of its own.
func (h *Host) replied(turn string, r message.Reply) {
	h.outbox.Push(turn, r)
	if r.Channel == message.ScheduleDoor {
		h.schedules.Wake()
	}
}
