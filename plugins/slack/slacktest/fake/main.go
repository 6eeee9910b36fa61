// Fake is slacktest as a program, for `flynn plugin dev conform`.
package main

import (
	"bytes"
	"time"

	"github.com/flynnhost/flynn/plugins/slack/slacktest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() { platform.Main(start) }

const private = "D1"

// start starts a Slack with one person on it, who writes in a thread of a private chat, as people do to an app that is an assistant.
func start(t platform.TB, report func(fake.Report)) platform.Fake {
	// This Slack redelivers sooner, and gives up as late as the real one.
	s := slacktest.Start(t, slacktest.Config{RedeliverAfter: time.Second, Redeliveries: 100})
	s.AddUser(slacktest.User{ID: "U1", Name: "ann"})
	s.AddChannel(slacktest.Channel{ID: private, Kind: "im", User: "U1"})
	thread := s.Begin(private)
	s.Watch(report)
	return platform.Fake{
		Ready: fake.Ready{
			Settings: map[string]any{"api_url": s.URL()},
			Secrets:  map[string]string{"app_token": slacktest.AppToken, "bot_token": slacktest.BotToken},
		},
		Post: func(p fake.Post) error {
			m := slacktest.Message{User: "U1", Text: p.Text, ThreadTS: thread}
			if p.Media > 0 {
				m.Files = []*slacktest.File{s.AddFile("file.bin", "application/octet-stream", bytes.Repeat([]byte{7}, p.Media))}
			}
			s.Say(private, m)
			return nil
		},
		Disconnect: s.Drop,
	}
}
