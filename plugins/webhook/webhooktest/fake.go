package webhooktest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// insistent is a system with one person, whose messages it posts until they are accepted.
type insistent struct {
	t      platform.TB
	system *System
	mu     platform.State
	url    string // where to, once that is known
}

// Fake starts a system. The webhook has no attachments, and no connection that lasts.
func Fake(t platform.TB, report func(fake.Report)) platform.Fake {
	p := &insistent{t: t, system: New(t)}
	p.system.Watch(report)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	t.Cleanup(cancel)
	return platform.Fake{
		Ready: fake.Ready{Settings: map[string]any{"deliver_url": p.system.URL()}, Secrets: map[string]string{"secret": p.system.Secret}},
		Post: func(m fake.Post) error {
			work.Go(func() { p.insist(ctx, m) })
			return nil
		},
		Webhook: func(url string) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.url = url
			p.mu.Wake()
			return nil
		},
	}
}

const pause = 100 * time.Millisecond // between two tries

// insist posts a message until the host accepts or finally refuses it.
func (p *insistent) insist(ctx context.Context, m fake.Post) {
	message := map[string]any{"text": m.Text, "sender": map[string]any{"id": "ann", "name": "Ann"}}
	url := ""
	for p.mu.Wait(ctx, func() bool { url = p.url; return url != "" }) && ctx.Err() == nil {
		switch status, _ := p.system.Post(ctx, url, m.ID, message); status { // without a status it is posted again
		case http.StatusAccepted, http.StatusBadRequest:
			return
		case http.StatusUnauthorized:
			p.t.Fatalf("message %s is refused with status %d", m.ID, status)
		}
		platform.Pause(pause, ctx.Done())
	}
}
