// Command fake runs the homeserver of matrixtest for flynn plugin conform.
package main

import (
	"strings"
	"sync"

	"github.com/flynnhost/flynn/plugins/matrix/matrixtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/fake/standalone"
)

// The room in which Ann and Flynn are alone.
const (
	room = "!conform:test"
	ann  = "@ann:test"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		t := standalone.New()
		s := matrixtest.New(t)
		s.Room(room, ann)
		p := &platform{t: t, server: s, report: report}
		p.watching.Go(p.watch)
		return fake.Ready{
			Settings: map[string]any{"homeserver": s.URL(), "user_id": matrixtest.User},
			Secrets:  map[string]string{"access_token": matrixtest.Token},
		}, p, nil
	})
}

type platform struct {
	t        *standalone.TB
	server   *matrixtest.Server
	report   func(fake.Report)
	watching sync.WaitGroup
}

// Post implements fake.Platform.
func (p *platform) Post(m fake.Post) error {
	if m.Media == 0 {
		p.server.Say(room, ann, m.Text, nil)
		return nil
	}
	uri := p.server.PutMedia("text/plain", []byte(strings.Repeat("x", m.Media)))
	p.server.Post(room, ann, "m.room.message", map[string]any{
		"msgtype": "m.file", "body": "conform.txt", "url": uri, "info": map[string]any{"size": m.Media, "mimetype": "text/plain"},
	})
	return nil
}

// Disconnect implements fake.Platform. The plugin polls: there is no connection to break.
func (p *platform) Disconnect() {}

// Close implements fake.Platform.
func (p *platform) Close() {
	p.t.Close()
	p.watching.Wait()
}

// watch reports what Flynn sends.
func (p *platform) watch() {
	for n := 0; p.t.Context().Err() == nil; {
		all := p.server.Messages(p.t.Context(), room, n+1)
		for ; n < len(all); n++ {
			text, _ := all[n].Content["body"].(string)
			if relation, _ := all[n].Content["m.relates_to"].(map[string]any); relation["rel_type"] == "m.replace" {
				p.report(fake.Report{Edited: &fake.Shown{Text: text}})
			} else {
				p.report(fake.Report{Shown: &fake.Shown{Text: text}})
			}
		}
	}
}
