// Package pulse is the channel of the benchmark: it delivers events that say when they were delivered, and how long the one before took to
// be acked. The benchmark runs it as a plugin and within its own process.
package pulse

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// Channel implements channel.Channel.
type Channel struct {
	settings struct {
		Flood bool `json:"flood"` // delivers as fast as the host takes
	}
}

// Pause is the time between two events when there is no flood.
const Pause = 500 * time.Microsecond

// Describe implements channel.Channel.
func (*Channel) Describe() channel.Description {
	return channel.Description{Name: "pulse", Version: "1.0.0"}
}

// Configure implements channel.Channel.
func (c *Channel) Configure(_ context.Context, with channel.Config) error {
	return with.Decode(&c.settings)
}

// Run implements channel.Channel.
func (c *Channel) Run(ctx context.Context, in channel.Inbox) error {
	in.Status(channel.StateReady, "")
	var took time.Duration
	for i := 1; ctx.Err() == nil; i++ {
		began := time.Now()
		e := channel.Event{
			ID: fmt.Sprint("e", i), Text: fmt.Sprint(began.UnixNano(), " ", int64(took)),
			Conversation: channel.Conversation{ID: "c", Kind: channel.DM}, Sender: channel.Sender{ID: "u", Name: "Ann"},
		}
		if c.settings.Flood {
			if err := in.DeliverAsync(ctx, e, func(error) {}); err != nil {
				return err
			}
			continue
		}
		if err := in.Deliver(ctx, e); err != nil {
			return err
		}
		took = time.Since(began)
		select {
		case <-time.After(Pause):
		case <-ctx.Done():
		}
	}
	return nil
}

// Send implements channel.Channel.
func (*Channel) Send(_ context.Context, s channel.Send) (channel.Sent, error) {
	return channel.Sent{MessageIDs: []string{"p-" + s.Key}}, nil
}
