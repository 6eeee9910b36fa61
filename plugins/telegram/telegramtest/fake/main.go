// Fake is telegramtest as a program, for `flynn plugin dev conform`.
package main

import (
	"bytes"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() { platform.Main(start) }

func start(t platform.TB, report func(fake.Report)) platform.Fake {
	s := telegramtest.Start(t)
	s.Watch(report)
	chat := s.Private("Ann")
	return platform.Fake{
		Ready: fake.Ready{Settings: map[string]any{"api_url": s.URL}, Secrets: map[string]string{"token": telegramtest.Token}},
		Post: func(m fake.Post) error {
			if m.Media == 0 {
				chat.Say(m.Text)
				return nil
			}
			id := s.AddFile("file.bin", bytes.Repeat([]byte{7}, m.Media), 0)
			chat.SayAs(chat.Ann, "", telegramtest.Fields{
				"caption": m.Text, "document": map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_name": "file.bin", "file_size": m.Media},
			})
			return nil
		},
		Disconnect: s.Disconnect,
	}
}
