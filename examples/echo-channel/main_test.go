package main

import (
	"errors"
	"testing"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestSaysAndHears(t *testing.T) {
	h := plugintest.Start(t, &echo{}, plugintest.Config{Settings: map[string]any{"text": "ping"}})
	h.WaitStatus(channel.StateReady)
	e := h.Event()
	h.Ack()
	if e.Text != "ping" {
		t.Errorf("it said %q, want ping", e.Text)
	}
	sent, err := h.Send(channel.Send{Key: "k", Conversation: e.Conversation, Text: "pong"})
	if err != nil || sent.Outcome != channel.OutcomeSent {
		t.Errorf("send: %+v, %v", sent, err)
	}
	if err := h.Shutdown(); err != nil {
		t.Error(err)
	}
}

func TestRefusesNonsense(t *testing.T) {
	_, err := plugintest.TryStart(t, &echo{}, plugintest.Config{Settings: map[string]any{"every_seconds": 0}})
	if _, ok := errors.AsType[channel.FieldErrors](err); !ok {
		t.Errorf("got %v, want field errors", err)
	}
}

func TestKeepsToTheContract(t *testing.T) {
	plugintest.Conform(t, plugintest.Conformance{
		Channel: func() channel.Channel { return &echo{} },
		Config:  plugintest.Config{Settings: map[string]any{"text": "ping", "every_seconds": 1}},
	})
}
