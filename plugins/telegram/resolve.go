package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
)

// Resolve implements channel.Resolver: "@name", an address of t.me, or the number of a chat. Telegram finds no titles, and no
// people by their names; a person's number works when he has written to the bot before.
func (p *plugin) Resolve(ctx context.Context, query string) ([]channel.Target, error) {
	name := named(query)
	if name == "" {
		return nil, nil
	}
	chat, err := p.api.GetChat(ctx, &bot.GetChatParams{ChatID: name})
	if refused(err) {
		return nil, nil
	}
	if err != nil {
		return nil, p.api.words(err)
	}
	title := chat.Title
	if title == "" {
		title = strings.TrimSpace(chat.FirstName + " " + chat.LastName)
	}
	home := p.conversation(models.Chat{ID: chat.ID, Type: chat.Type}, 0)
	return []channel.Target{{Conversation: home, Title: title}}, nil
}

// named returns the form that getChat accepts: "@name" or a number; "" for anything else.
func named(query string) string {
	query = strings.TrimSpace(query)
	for _, prefix := range []string{"https://t.me/", "http://t.me/", "t.me/"} {
		if rest, ok := strings.CutPrefix(query, prefix); ok {
			query = "@" + rest
		}
	}
	if n, err := strconv.ParseInt(query, 10, 64); err == nil && n != 0 {
		return query
	}
	name, ok := strings.CutPrefix(query, "@")
	if !ok || len(name) < 4 || len(name) > 32 {
		return ""
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return ""
		}
	}
	return query
}
