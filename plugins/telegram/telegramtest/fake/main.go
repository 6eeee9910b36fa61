// Command fake runs the Bot API server of telegramtest for flynn plugin conform.
package main

import (
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/fake/standalone"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		t := standalone.New()
		s := telegramtest.Start(t)
		p := &platform{t: t, server: s, chat: s.Private("Ann"), report: report, end: make(chan struct{})}
		p.watching.Go(p.watch)
		return fake.Ready{Settings: map[string]any{"api_url": s.URL}, Secrets: map[string]string{"token": telegramtest.Token}}, p, nil
	})
}

// platform is one person in a private chat with the bot.
type platform struct {
	t        *standalone.TB
	server   *telegramtest.Server
	chat     *telegramtest.Chat
	report   func(fake.Report)
	end      chan struct{}
	watching sync.WaitGroup
}

// Post implements fake.Platform.
func (p *platform) Post(m fake.Post) error {
	if m.Media == 0 {
		p.chat.Say(m.Text)
		return nil
	}
	id := p.server.AddFile("conform.txt", []byte(strings.Repeat("x", m.Media)), int64(m.Media))
	document := map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_name": "conform.txt", "mime_type": "text/plain", "file_size": m.Media}
	p.chat.SayAs(p.chat.Ann, "", telegramtest.Fields{"document": document, "caption": m.Text})
	return nil
}

// Disconnect implements fake.Platform. The bot polls: there is no connection to break.
func (p *platform) Disconnect() {}

// Close implements fake.Platform.
func (p *platform) Close() {
	close(p.end)
	p.watching.Wait()
	p.t.Close()
}

// watch reports what the bot did, as soon as it is seen.
func (p *platform) watch() {
	texts, typed := map[int64]string{}, 0
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-tick.C:
		case <-p.end:
			tick.Stop()
			return
		}
		for _, m := range p.chat.Messages() {
			before, known := texts[m.ID]
			if !m.FromBot || known && before == m.Text {
				continue
			}
			texts[m.ID] = m.Text
			if known {
				p.report(fake.Report{Edited: &fake.Shown{Text: m.Text}})
			} else {
				p.report(fake.Report{Shown: &fake.Shown{Text: m.Text}})
			}
		}
		for n := len(p.server.Calls("sendChatAction")); typed < n; typed++ {
			p.report(fake.Report{Typing: true})
		}
	}
}
