// Command echo-channel is a complete channel plugin: it sends a message once in a while and receives the answer. Copy it to start a plugin.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

func main() { channel.Main(&echo{}) }

type echo struct {
	config   channel.Config
	settings struct {
		Text         string `json:"text"`
		EverySeconds int    `json:"every_seconds"`
	}
}

func (e *echo) Describe() channel.Description {
	return channel.Description{
		Name: "echo-channel", Version: "0.1.0",
		// Nobody is told apart here. SendersProved is for a platform that authenticates each sender: all others are guests at most.
		Capabilities: channel.Capabilities{Senders: channel.SendersUnproved},
	}
}

func (e *echo) Configure(_ context.Context, c channel.Config) error {
	e.config = c
	e.settings.Text, e.settings.EverySeconds = "hello", 60
	if err := c.Decode(&e.settings); err != nil {
		return err
	}
	if e.settings.EverySeconds < 1 {
		return channel.FieldErrors{{Path: "every_seconds", Message: "must be at least 1"}}
	}
	return nil
}

func (e *echo) Run(ctx context.Context, in channel.Inbox) error {
	in.Status(channel.StateReady, "talking to itself")
	for tick := time.Tick(time.Duration(e.settings.EverySeconds) * time.Second); ctx.Err() == nil; {
		said := channel.Event{
			ID: fmt.Sprint(time.Now().UnixNano()), Text: e.settings.Text,
			Conversation: channel.Conversation{ID: "echo", Kind: channel.DM}, Sender: channel.Sender{ID: "echo"},
		}
		switch err := in.Deliver(ctx, said); {
		case errors.Is(err, channel.ErrMalformed): // the host never takes this event: do not send it again
			e.config.Log.Warn("event was refused", "event", said.ID, "error", err)
		case err != nil:
			return err
		}
		select {
		case <-tick:
		case <-ctx.Done():
		}
	}
	return nil
}

func (e *echo) Send(_ context.Context, s channel.Send) (channel.Sent, error) {
	e.config.Log.Info("heard", "text", s.Text)
	return channel.Sent{MessageIDs: []string{s.Key}}, nil
}
