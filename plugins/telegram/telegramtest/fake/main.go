// Fake is telegramtest as a program, for `flynn plugin conform`.
package main

import (
	"bytes"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

func main() { fake.Main(start) }

// platform is a Telegram with one person on it.
type platform struct {
	server *telegramtest.Server
	chat   *telegramtest.Chat
}

func start(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
	s := telegramtest.New()
	s.Watch(func(method string, m telegramtest.Message) {
		switch method {
		case "send":
			report(fake.Report{Shown: &fake.Shown{Text: m.Text}})
		case "edit":
			report(fake.Report{Edited: &fake.Shown{Text: m.Text}})
		case "typing":
			report(fake.Report{Typing: true})
		}
	})
	ready := fake.Ready{Settings: map[string]any{"api_url": s.URL}, Secrets: map[string]string{"token": telegramtest.Token}}
	return ready, &platform{s, s.Private("Ann")}, nil
}

// Post implements fake.Platform.
func (p *platform) Post(post fake.Post) error {
	if post.Media == 0 {
		p.chat.Say(post.Text)
		return nil
	}
	id := p.server.AddFile("file.bin", bytes.Repeat([]byte{7}, post.Media), 0)
	p.chat.SayAs(p.chat.Ann, "", telegramtest.Fields{
		"caption": post.Text, "document": map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_name": "file.bin", "file_size": post.Media},
	})
	return nil
}

// Disconnect implements fake.Platform.
func (p *platform) Disconnect() { p.server.Disconnect() }

// Close implements fake.Platform.
func (p *platform) Close() { p.server.Close() }
