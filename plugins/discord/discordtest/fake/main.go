// Command fake runs the Discord of discordtest for flynn plugin conform.
package main

import (
	"bytes"
	"sync"

	"github.com/flynnhost/flynn/plugins/discord/discordtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		s := discordtest.New()
		p := &platform{server: s, ann: s.Person("Ann"), chat: s.Channel("", ""), report: report, end: make(chan struct{})}
		p.watching.Go(p.watch)
		settings := map[string]any{"api": s.API(), "cdn": []string{s.CDN()}}
		return fake.Ready{Settings: settings, Secrets: map[string]string{"token": s.Token}}, p, nil
	})
}

// platform is one person in a private chat with the bot.
type platform struct {
	server   *discordtest.Server
	ann      discordtest.User
	chat     string
	report   func(fake.Report)
	end      chan struct{}
	watching sync.WaitGroup
}

// Post implements fake.Platform.
func (p *platform) Post(m fake.Post) error {
	var with []func(*discordtest.Message)
	if m.Media > 0 {
		with = append(with, p.server.File("conform.bin", "application/octet-stream", bytes.Repeat([]byte("x"), m.Media)))
	}
	p.server.Say(p.chat, p.ann, m.Text, with...)
	return nil
}

// Disconnect implements fake.Platform.
func (p *platform) Disconnect() { p.server.Drop() }

// Close implements fake.Platform.
func (p *platform) Close() {
	close(p.end)
	p.watching.Wait()
	p.server.Stop()
}

// watch reports what people see of the bot.
func (p *platform) watch() {
	texts, typed := map[string]string{}, 0
	for {
		changed := p.server.Changed()
		for _, m := range p.server.Messages(p.chat) {
			before, known := texts[m.ID]
			texts[m.ID] = m.Content
			switch {
			case !known:
				p.report(fake.Report{Shown: &fake.Shown{Text: m.Content}})
			case before != m.Content:
				p.report(fake.Report{Edited: &fake.Shown{Text: m.Content}})
			}
		}
		for n := p.server.Typing(p.chat); typed < n; typed++ {
			p.report(fake.Report{Typing: true})
		}
		select {
		case <-changed:
		case <-p.end:
			return
		}
	}
}
