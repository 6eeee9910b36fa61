// Fake is slacktest as a program, for `flynn plugin conform`.
package main

import (
	"bytes"
	"time"

	"github.com/flynnhost/flynn/plugins/slack/slacktest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

func main() { fake.Main(start) }

// platform is a Slack with one person on it, who writes in a thread of a private chat, as people do to an app that is an assistant.
type platform struct {
	server *slacktest.Server
	thread string
}

const private = "D1"

func start(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
	// A Slack in a hurry: it tells again sooner, and gives up as late as the real one.
	s := slacktest.New(slacktest.Config{RedeliverAfter: time.Second, Redeliveries: 100})
	s.AddUser(slacktest.User{ID: "U1", Name: "ann"})
	s.AddChannel(slacktest.Channel{ID: private, Kind: "im", User: "U1"})
	thread := s.Begin(private)
	s.Watch(func(what, text string) {
		switch what {
		case "send":
			report(fake.Report{Shown: &fake.Shown{Text: text}})
		case "edit":
			report(fake.Report{Edited: &fake.Shown{Text: text}})
		case "status":
			report(fake.Report{Typing: text != ""})
		}
	})
	return fake.Ready{
		Settings: map[string]any{"api_url": s.URL()},
		Secrets:  map[string]string{"app_token": slacktest.AppToken, "bot_token": slacktest.BotToken},
	}, &platform{s, thread}, nil
}

// Post implements fake.Platform.
func (p *platform) Post(post fake.Post) error {
	m := slacktest.Message{User: "U1", Text: post.Text, ThreadTS: p.thread}
	if post.Media > 0 {
		m.Files = []*slacktest.File{p.server.AddFile("file.bin", "application/octet-stream", bytes.Repeat([]byte{7}, post.Media))}
	}
	p.server.Say(private, m)
	return nil
}

// Disconnect implements fake.Platform.
func (p *platform) Disconnect() { p.server.Drop() }

// Close implements fake.Platform.
func (p *platform) Close() { p.server.Close() }
