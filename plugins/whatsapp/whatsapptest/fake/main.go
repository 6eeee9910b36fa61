// Command fake runs the Meta of whatsapptest for flynn plugin dev conform.
package main

import (
	"bytes"
	"time"

	"github.com/flynnhost/flynn/plugins/whatsapp/whatsapptest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// Ann is the only person, by her number.
const (
	ann  = "4915112345678"
	name = "Ann"
)

func main() { platform.Main(start) }

func start(t platform.TB, report func(fake.Report)) platform.Fake {
	// This Meta redelivers sooner, and gives up later.
	s := whatsapptest.Start(t, whatsapptest.Config{Statuses: true, RedeliverAfter: 100 * time.Millisecond, Redeliveries: 100})
	s.Watch(report)
	return platform.Fake{ // there is no connection that lasts
		Ready: fake.Ready{
			Settings: map[string]any{"api_url": s.URL(), "phone_number_id": whatsapptest.PhoneID},
			Secrets: map[string]string{
				"access_token": whatsapptest.AccessToken, "app_secret": whatsapptest.AppSecret, "verify_token": whatsapptest.VerifyToken,
			},
		},
		Post: func(m fake.Post) error {
			if m.Media == 0 {
				s.Say(ann, name, "text", map[string]any{"body": m.Text})
				return nil
			}
			const kind = "application/octet-stream"
			file := s.AddMedia("conform.bin", kind, bytes.Repeat([]byte{7}, m.Media))
			s.Say(ann, name, "document", map[string]any{"id": file.ID, "mime_type": kind, "filename": file.Name, "caption": m.Text})
			return nil
		},
		// As Meta does, it asks for the proof first.
		Webhook: func(url string) error { return s.Subscribe(url, whatsapptest.VerifyToken) },
	}
}
