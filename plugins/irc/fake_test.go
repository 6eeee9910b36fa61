package main

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/irc/irctest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// connect runs the plugin against a fake server that has accounts, and waits until the bot is there.
func connect(t *testing.T) (*irctest.Server, *plugintest.Host) {
	t.Helper()
	s := irctest.New(t, irctest.Config{Accounts: map[string]string{"flynn": "sesame"}})
	s.Join("@Ann", "#c")
	h := plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings: map[string]any{"address": s.Addr(), "tls": false, "channels": []string{"#c"}, "account": "flynn", "identity": "account"},
		Secrets:  map[string]string{"sasl_password": "sesame"},
	})
	s.Await("the bot in #c", func() bool { return s.In("flynn", "#c") })
	return s, h
}

func TestAConversationWithAccounts(t *testing.T) {
	s, h := connect(t)
	s.Say("Ann", "#c", "flynn: hello")
	e := h.Event()
	h.Ack()
	if e.ID != "m1" || e.Text != "hello" || !e.Addressed || e.Sender.ID != "ann" || len(e.Sender.Roles) != 1 || e.Sender.Roles[0] != "op" {
		t.Errorf("event %+v", e)
	}
	if sent, err := h.Send(channel.Send{Key: "k", Conversation: e.Conversation, Text: "one\ntwo"}); sent.Outcome != channel.OutcomeSent {
		t.Errorf("sent %+v, %v", sent, err)
	}
	if said := s.Said(); len(said) != 2 || said[0].To != "#c" || said[0].Text+said[1].Text != "onetwo" {
		t.Errorf("the bot said %+v", said)
	}
	s.Refuse("#c", true)
	if sent, err := h.Send(channel.Send{Key: "l", Conversation: e.Conversation, Text: "three"}); sent.Outcome != channel.OutcomeNotSent {
		t.Errorf("what the server refuses is %+v, %v", sent, err)
	}
}

func TestTheBotComesBack(t *testing.T) {
	s, h := connect(t)
	s.Drop()
	s.Await("the bot", func() bool { return !s.In("flynn", "#c") })
	s.Await("the bot", func() bool { return s.In("flynn", "#c") })
	s.Say("Ann", "flynn", "still there?")
	e := h.Event()
	h.Ack()
	if !strings.HasPrefix(e.Conversation.ID, "ann!") || e.Conversation.Kind != channel.DM {
		t.Errorf("event %+v", e)
	}
}

func TestKeepsToTheContract(t *testing.T) {
	plugintest.Conform(t, plugintest.Conformance{
		Channel: func() channel.Channel { return &plugin{} }, Platform: irctest.Fake, Only: []string{"events", "send", "send-duplicate", "second-stream"},
		Config: plugintest.Config{Settings: map[string]any{"tls": false, "channels": []string{"#flynn"}, "flood_interval_ms": 50}},
	})
}

// TestTheConnectionEndsWithTheLease: the nick is free for the next host, and the bot comes back when its host has the channel again.
func TestTheConnectionEndsWithTheLease(t *testing.T) {
	s := irctest.New(t, irctest.Config{})
	leases := plugintest.NewLeases(1, time.Second)
	h := plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings: map[string]any{"address": s.Addr(), "tls": false, "channels": []string{"#c"}}, Leases: leases,
	})
	h.WaitStatus(channel.StateReady)
	time.Sleep(time.Until(leases.Suspend()))
	h.WaitStatus(channel.StateConnecting)
	s.Await("the end of the connection", func() bool { return len(s.Bots()) == 0 })
	if sent, err := h.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "#c"}, Text: "late"}); sent.Outcome != channel.OutcomeNotSent || err == nil {
		t.Errorf("sent %+v, %v", sent, err)
	}
	leases.Grant(2, time.Minute)
	h.WaitStatus(channel.StateReady)
	if bots := s.Bots(); len(bots) != 1 {
		t.Errorf("bots %q", bots)
	}
}
