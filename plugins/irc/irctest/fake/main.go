// Command fake runs the server of irctest for flynn plugin conform.
package main

import (
	"sync"

	"github.com/flynnhost/flynn/plugins/irc/irctest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// The bot's name, which is its account's as well, and its password.
const (
	nick     = "flynn"
	password = "sesame"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		s, err := irctest.New(irctest.Config{Accounts: map[string]string{nick: password}})
		if err != nil {
			return fake.Ready{}, nil, err
		}
		p := &platform{server: s, end: make(chan struct{})}
		p.watching.Go(func() { p.watch(report) })
		settings := map[string]any{"address": s.Addr(), "nick": nick, "account": nick}
		return fake.Ready{Settings: settings, Secrets: map[string]string{"sasl_password": password}}, p, nil
	})
}

// platform is a network on which Ann talks to the bot in private.
type platform struct {
	server   *irctest.Server
	end      chan struct{}
	watching sync.WaitGroup
}

// Post implements fake.Platform. IRC has no attachments, and what nobody is there for is lost.
func (p *platform) Post(m fake.Post) error {
	p.server.Say("Ann", nick, m.Text)
	return nil
}

// Disconnect implements fake.Platform.
func (p *platform) Disconnect() { p.server.Drop() }

// Close implements fake.Platform.
func (p *platform) Close() {
	close(p.end)
	p.server.Close()
	p.watching.Wait()
}

// watch reports what the bot writes.
func (p *platform) watch(report func(fake.Report)) {
	for n := 0; ; {
		changed := p.server.Changed()
		for said := p.server.Said(); n < len(said); n++ {
			report(fake.Report{Shown: &fake.Shown{Text: said[n].Text}})
		}
		select {
		case <-changed:
		case <-p.end:
			return
		}
	}
}
