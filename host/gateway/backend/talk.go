package backend

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

const (
	// titleTurns is how many turns are read for a title: the first ones may have no text, such as a message with only a file.
	titleTurns = 5
	// titleLength bounds a title, in code points.
	titleLength = 60
)

// title returns the title of a conversation. One that nobody chose is made once, of the first words.
func (c Conversations) title(ctx context.Context, channel, conversation string) string {
	if t, err := c.Store.Title(ctx, channel, conversation); err == nil {
		return t.Text
	}
	turns, err := c.Store.FirstTurns(ctx, channel, conversation, titleTurns)
	if err != nil {
		return ""
	}
	for _, t := range turns {
		pieces, err := c.describe(ctx, t)
		if err != nil {
			return ""
		}
		for _, p := range pieces {
			words := []rune(strings.Join(strings.Fields(p.Text), " "))
			if !p.Said || len(words) == 0 {
				continue
			}
			title := string(words[:min(len(words), titleLength)])
			_ = c.Store.SetTitle(ctx, turnlog.Title{Channel: channel, Conversation: conversation, Text: title, Turn: t.ID}) // or it is made again
			return title
		}
	}
	return ""
}

// Rename implements gateway.Conversations.
func (c Conversations) Rename(ctx context.Context, channel, conversation, title string) error {
	err := c.Store.SetTitle(ctx, turnlog.Title{Channel: channel, Conversation: conversation, Text: strings.Join(strings.Fields(title), " ")})
	if errors.Is(err, store.ErrNotFound) {
		return store.NotFound("nothing was answered in " + channel + "/" + conversation)
	}
	return err
}

// Search implements gateway.Conversations.
func (c Conversations) Search(ctx context.Context, words string, of message.SenderKey, cursor string, limit int) (gateway.Page[gateway.Hit], error) {
	var page gateway.Page[gateway.Hit]
	below, err := gateway.NumberCursor(cursor)
	if err != nil {
		return page, err
	}
	if len(strings.Fields(words)) == 0 {
		return page, gateway.BadRequest("q: give words to search for")
	}
	hits, err := c.Store.SearchSaid(ctx, turnlog.Words{Text: words, Of: of, Below: below, Limit: limit + 1})
	if err != nil {
		return page, err
	}
	for i, h := range hits {
		if i == limit {
			page.Next = strconv.FormatInt(hits[i-1].ID, 10)
			break
		}
		from := gateway.FromUser
		if h.ByAgent {
			from = gateway.FromAgent
		}
		title, err := c.Store.Title(ctx, h.Channel, h.Conversation)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return page, err
		}
		page.Items = append(page.Items, gateway.Hit{
			Channel: h.Channel, Conversation: h.Conversation, Title: title.Text,
			Turn: h.Turn, Key: h.Key, From: from, Agent: h.Agent, Time: h.At, Parts: h.Parts,
		})
	}
	return page, nil
}
