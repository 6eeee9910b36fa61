// Command fake runs the Meta of whatsapptest for flynn plugin conform.
package main

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/plugins/whatsapp/whatsapptest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/fake/standalone"
)

// Ann is the only person, by her number.
const (
	ann  = "4915112345678"
	name = "Ann"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		t := standalone.New()
		// A Meta in a hurry: it tells again sooner, and gives up later.
		s := whatsapptest.Start(t, whatsapptest.Config{Statuses: true, RedeliverAfter: 100 * time.Millisecond, Redeliveries: 100})
		p := &platform{t: t, server: s}
		p.watching.Go(func() { p.watch(report) })
		return fake.Ready{
			Settings: map[string]any{"api_url": s.URL(), "phone_number_id": whatsapptest.PhoneID},
			Secrets: map[string]string{
				"access_token": whatsapptest.AccessToken, "app_secret": whatsapptest.AppSecret, "verify_token": whatsapptest.VerifyToken,
			},
		}, p, nil
	})
}

type platform struct {
	t        *standalone.TB
	server   *whatsapptest.Server
	watching sync.WaitGroup
}

// Webhook implements fake.Caller: as Meta does, it asks for the proof first.
func (p *platform) Webhook(w fake.Webhook) error {
	return p.server.Subscribe(w.URL, whatsapptest.VerifyToken)
}

// Post implements fake.Platform.
func (p *platform) Post(m fake.Post) error {
	if m.Media == 0 {
		p.server.Say(ann, name, "text", map[string]any{"body": m.Text})
		return nil
	}
	const kind = "application/octet-stream"
	file := p.server.AddMedia("conform.bin", kind, bytes.Repeat([]byte{7}, m.Media))
	p.server.Say(ann, name, "document", map[string]any{"id": file.ID, "mime_type": kind, "filename": file.Name, "caption": m.Text})
	return nil
}

// Disconnect implements fake.Platform. There is no connection that lasts.
func (p *platform) Disconnect() {}

// Close implements fake.Platform.
func (p *platform) Close() {
	p.t.Close()
	p.watching.Wait()
}

// watch reports what people see of Flynn.
func (p *platform) watch(report func(fake.Report)) {
	for sent, read := 0, 0; ; {
		changed := p.server.Changed()
		for all := p.server.Sent(); sent < len(all); sent++ {
			report(fake.Report{Shown: &fake.Shown{Text: shown(all[sent])}})
		}
		for all := p.server.Read(); read < len(all); read++ {
			if strings.HasSuffix(all[read], " typing") {
				report(fake.Report{Typing: true})
			}
		}
		select {
		case <-changed:
		case <-p.t.Context().Done():
			return
		}
	}
}

// shown is the text of a message of any type.
func shown(m whatsapptest.Sent) string {
	body := m.Body
	if m.Type == "interactive" {
		body, _ = body["body"].(map[string]any)
	}
	for _, key := range []string{"body", "text", "caption"} {
		if text, ok := body[key].(string); ok {
			return text
		}
	}
	return ""
}
