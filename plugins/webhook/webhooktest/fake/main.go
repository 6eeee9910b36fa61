// Command fake runs the system of webhooktest for flynn plugin conform.
package main

import (
	"net/http"
	"sync"
	"time"

	"github.com/flynnhost/flynn/plugins/webhook/webhooktest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/fake/standalone"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		t := standalone.New()
		p := &platform{t: t, system: webhooktest.New(t), known: make(chan struct{})}
		p.work.Go(func() { p.watch(report) })
		settings := map[string]any{"deliver_url": p.system.URL()}
		return fake.Ready{Settings: settings, Secrets: map[string]string{"secret": p.system.Secret}}, p, nil
	})
}

// platform is a system with one person, whose messages it posts until they are taken.
type platform struct {
	t      *standalone.TB
	system *webhooktest.System
	work   sync.WaitGroup
	known  chan struct{} // closed once there is an address

	mu  sync.Mutex
	url string
}

// Webhook implements fake.Caller.
func (p *platform) Webhook(w fake.Webhook) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.url == "" {
		close(p.known)
	}
	p.url = w.URL
	return nil
}

// Post implements fake.Platform. The webhook has no attachments.
func (p *platform) Post(m fake.Post) error {
	p.work.Go(func() { p.insist(m) })
	return nil
}

const pause = 100 * time.Millisecond // between two tries

// insist posts a message until it is taken.
func (p *platform) insist(m fake.Post) {
	select {
	case <-p.known:
	case <-p.t.Context().Done():
		return
	}
	message := map[string]any{"text": m.Text, "sender": map[string]any{"id": "ann", "name": "Ann"}}
	for p.t.Context().Err() == nil {
		p.mu.Lock()
		url := p.url
		p.mu.Unlock()
		status, _ := p.system.Post(p.t.Context(), url, m.ID, message) // without a status it is posted again
		switch status {
		case http.StatusAccepted:
			return
		case http.StatusBadRequest, http.StatusUnauthorized:
			p.t.Fatalf("message %s is refused with status %d", m.ID, status)
		}
		select {
		case <-time.After(pause):
		case <-p.t.Context().Done():
		}
	}
}

// watch reports what Flynn answers.
func (p *platform) watch(report func(fake.Report)) {
	for n := 0; p.t.Context().Err() == nil; {
		all := p.system.Answers(p.t.Context(), n+1)
		for ; n < len(all); n++ {
			report(fake.Report{Shown: &fake.Shown{Text: all[n].Text}})
		}
	}
}

// Disconnect implements fake.Platform. There is no connection that lasts.
func (p *platform) Disconnect() {}

// Close implements fake.Platform.
func (p *platform) Close() {
	p.t.Close()
	p.work.Wait()
}
