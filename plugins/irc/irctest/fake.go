package irctest

import (
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// The bot's name, which is its account's as well, and its password.
const (
	nick     = "flynn"
	password = "sesame"
)

// Fake starts a network on which Ann talks to the bot in private. IRC has no attachments, and a message that nobody receives is lost.
func Fake(t platform.TB, report func(fake.Report)) platform.Fake {
	s := New(t, Config{Accounts: map[string]string{nick: password}})
	s.Watch(report)
	return platform.Fake{
		Ready: fake.Ready{
			Settings: map[string]any{"address": s.Addr(), "nick": nick, "account": nick}, Secrets: map[string]string{"sasl_password": password},
		},
		Post: func(m fake.Post) error {
			s.Say("Ann", nick, m.Text)
			return nil
		},
		Disconnect: s.Drop,
	}
}
