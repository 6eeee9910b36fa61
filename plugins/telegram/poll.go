package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
)

// poll requests updates until an error. The offset of a request confirms the updates before it, so it advances only when the host has all
// of those. Once Telegram has received the offset it is reset: without one, Telegram begins with the first unconfirmed update, even if its
// ids have continued from a lower number.
func (p *plugin) poll(ctx context.Context, in channel.Inbox) error {
	if err := p.dropWebhook(ctx); err != nil {
		return err
	}
	p.health.isReady(p.self().words())
	for {
		raws, err := p.api.updates(ctx, p.confirm)
		if err != nil {
			return err
		}
		p.confirm = 0
		p.health.works()
		if p.confirm, err = p.take(ctx, in, raws); err != nil {
			return err
		}
	}
}

// dropWebhook removes the webhook of an earlier configuration: while there is one, polling is refused.
func (p *plugin) dropWebhook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	info, err := p.api.GetWebhookInfo(ctx)
	if err != nil || info.URL == "" {
		return err
	}
	p.log.Warn("removed a webhook, since mode is poll", "url", info.URL)
	_, err = p.api.DeleteWebhook(ctx, &bot.DeleteWebhookParams{})
	return err
}

// take delivers updates and returns the offset that confirms them, once the host has all of them.
func (p *plugin) take(ctx context.Context, in channel.Inbox, raws []json.RawMessage) (confirm int64, err error) {
	var updates []*models.Update
	var events []channel.Event
	for _, raw := range raws {
		u, err := readUpdate(raw)
		if u == nil {
			return 0, err
		}
		if err != nil {
			p.log.Error("skipped an update", "error", p.api.words(err))
		}
		updates = append(updates, u)
		events = append(events, p.events(u, raw)...)
		confirm = u.ID + 1
	}
	if err := channel.DeliverAll(ctx, in, events); err != nil {
		return 0, err
	}
	for _, u := range updates {
		p.answer(ctx, u.CallbackQuery)
	}
	return confirm, nil
}

// answerTime bounds the answer to a press; after a minute or so Telegram takes none.
const answerTime = 10 * time.Second

// answer ends the progress indicator on a pressed button. Failures are ignored: the host reacts to the press.
func (p *plugin) answer(ctx context.Context, q *models.CallbackQuery) {
	if q == nil {
		return
	}
	p.answers.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		if _, err := p.api.AnswerCallbackQuery(ctx, &bot.AnswerCallbackQueryParams{CallbackQueryID: q.ID}); err != nil && ctx.Err() == nil {
			p.log.Debug("cannot answer the press of a button", "error", p.api.words(err))
		}
	})
}
