// Command fake runs the Discord of discordtest for flynn plugin dev conform.
package main

import (
	"bytes"

	"github.com/flynnhost/flynn/plugins/discord/discordtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() { platform.Main(start) }

// start starts a Discord with one person in a private chat with the bot.
func start(t platform.TB, report func(fake.Report)) platform.Fake {
	s := discordtest.Start(t)
	ann, chat := s.Person("Ann"), s.Channel("", "")
	s.Watch(report)
	return platform.Fake{
		Ready: fake.Ready{Settings: map[string]any{"api": s.API(), "cdn": []string{s.CDN()}}, Secrets: map[string]string{"token": s.Token}},
		Post: func(m fake.Post) error {
			var with []func(*discordtest.Message)
			if m.Media > 0 {
				with = append(with, s.File("conform.bin", "application/octet-stream", bytes.Repeat([]byte("x"), m.Media)))
			}
			s.Say(chat, ann, m.Text, with...)
			return nil
		},
		Disconnect: s.Drop,
	}
}
