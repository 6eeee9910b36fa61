package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-telegram/bot"

	"github.com/flynnhost/flynn/sdk/channel"
)

// maxConnections is how many updates Telegram may deliver at the same time; those of one chat are delivered one by one.
const maxConnections = 16

// listen receives updates through the host's listener until an error. Telegram repeats an update until it gets a success status, which is
// sent when the host has the update. The webhook stays when the plugin ends: Telegram stores updates that it cannot deliver for a day.
func (p *plugin) listen(ctx context.Context, in channel.Inbox) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	secret := rand.Text() // new for each start: updates in flight with an older one are delivered again
	ready := func(url string) {
		if err := p.setWebhook(ctx, url, secret); err != nil {
			cancel(err)
			return
		}
		p.health.isReady(p.self().words() + ", by webhook")
	}
	err := p.Host.Webhook(ctx, "", ready, p.hook(ctx, in, secret))
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (p *plugin) setWebhook(ctx context.Context, url, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := p.api.SetWebhook(ctx, &bot.SetWebhookParams{
		URL: url, MaxConnections: maxConnections, AllowedUpdates: wanted(), SecretToken: secret,
	})
	if errors.Is(err, bot.ErrorBadRequest) {
		return fmt.Errorf("set webhook %s: %w", url, err)
	}
	return err
}

const maxUpdate = 256 << 10 // bytes

// hook answers Telegram's calls, until ctx ends.
func (p *plugin) hook(ctx context.Context, in channel.Inbox, secret string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("X-Telegram-Bot-Api-Secret-Token")
		if subtle.ConstantTimeCompare([]byte(given), []byte(secret)) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		raw, err := io.ReadAll(io.LimitReader(r.Body, maxUpdate+1))
		if r.Method != http.MethodPost || err != nil || len(raw) > maxUpdate {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		u, err := readUpdate(raw)
		if u == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if err != nil {
			p.log.Error("skipped an update", "error", p.api.words(err))
		}
		if err := channel.DeliverAll(r.Context(), in, p.events(u, raw)); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable) // it is delivered again
			return
		}
		p.answer(ctx, u.CallbackQuery) // the call ends before it
	})
}
