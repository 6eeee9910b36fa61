// Command fake runs the homeserver of matrixtest for flynn plugin dev conform.
package main

import (
	"strings"

	"github.com/flynnhost/flynn/plugins/matrix/matrixtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// The room in which Ann and Flynn are alone.
const (
	room = "!conform:test"
	ann  = "@ann:test"
)

func main() { platform.Main(start) }

func start(t platform.TB, report func(fake.Report)) platform.Fake {
	s := matrixtest.New(t)
	s.Room(room, ann)
	s.Watch(report)
	return platform.Fake{ // the plugin polls: there is no connection to break
		Ready: fake.Ready{
			Settings: map[string]any{"homeserver": s.URL(), "user_id": matrixtest.User},
			Secrets:  map[string]string{"access_token": matrixtest.Token},
		},
		Post: func(m fake.Post) error {
			if m.Media == 0 {
				s.Say(room, ann, m.Text, nil)
				return nil
			}
			uri := s.PutMedia("text/plain", []byte(strings.Repeat("x", m.Media)))
			s.Post(room, ann, "m.room.message", map[string]any{
				"msgtype": "m.file", "body": "conform.txt", "url": uri, "info": map[string]any{"size": m.Media, "mimetype": "text/plain"},
			})
			return nil
		},
	}
}
