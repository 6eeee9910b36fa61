package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	missedPage    = 100
	missedPages   = 3  // of one conversation
	missedPlaces  = 60 // conversations that are asked about after one gap
	missedTimeout = time.Minute
)

// catchUp reads the messages of known conversations after the last one that the host has. Slack tries to send an event three times within
// some minutes, and then gives up. A message that arrives both ways has one id, and the host drops the second.
func (p *plugin) catchUp(ctx context.Context, in channel.Inbox) {
	if p.settings.CatchUpHours == 0 {
		return
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, missedTimeout)
	defer cancel()
	earliest := stamp(time.Now().Add(-p.settings.catchUp()))
	ids, known := p.places.list()
	for n, id := range ids {
		was := known[id]
		if was.Seen == "" {
			continue
		}
		if n >= missedPlaces || ctx.Err() != nil {
			p.log.Warn("did not look for missed messages in some conversations", "asked", n, "known", len(ids))
			return
		}
		list, err := p.since(ctx, id, was.Kind, max(was.Seen, earliest))
		if err != nil {
			p.log.Warn("cannot read missed messages", "conversation", id, "error", err)
		}
		for _, m := range list {
			if h, ok, err := p.readMessage(whole, m); ok && err == nil {
				p.hand(whole, in, h, func() {})
			}
		}
	}
}

// since returns the messages of a conversation after oldest, the oldest first.
func (p *plugin) since(ctx context.Context, id, kind, oldest string) ([]message, error) {
	var list []message
	where, thread := split(id)
	more, err := p.pages(ctx, where, thread, oldest, missedPages, func(m slack.Message) {
		if m.Timestamp > oldest { // the parent of a thread comes with each page
			list = append(list, past(m, where, kind))
		}
	})
	if more {
		p.log.Warn("more messages were missed than are fetched", "conversation", id, "read", len(list))
	}
	slices.SortFunc(list, func(a, b message) int { return strings.Compare(a.TS, b.TS) })
	return list, err
}

// pages reads up to most pages of a channel or a thread, and reports whether there is more. It waits as long as Slack says.
func (p *plugin) pages(ctx context.Context, where, thread, oldest string, most int, each func(slack.Message)) (more bool, err error) {
	for cursor, n := "", 0; n < most; n++ {
		list, next, err := p.page(ctx, where, thread, oldest, cursor)
		for limited := (*slack.RateLimitedError)(nil); errors.As(err, &limited); {
			select {
			case <-time.After(max(limited.RetryAfter, time.Second)):
			case <-ctx.Done():
				return true, err
			}
			list, next, err = p.page(ctx, where, thread, oldest, cursor)
		}
		if err != nil {
			return true, err
		}
		for _, m := range list {
			each(m)
		}
		if cursor = next; cursor == "" {
			return false, nil
		}
	}
	return true, nil
}

func (p *plugin) page(ctx context.Context, where, thread, oldest, cursor string) (list []slack.Message, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if thread != "" {
		list, _, next, err = p.web.client.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
			ChannelID: where, Timestamp: thread, Oldest: oldest, Cursor: cursor, Limit: missedPage, IncludeAllMetadata: true,
		})
	} else {
		var all *slack.GetConversationHistoryResponse
		all, err = p.web.client.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
			ChannelID: where, Oldest: oldest, Cursor: cursor, Limit: missedPage, IncludeAllMetadata: true,
		})
		if err == nil {
			list, next = all.Messages, all.ResponseMetaData.NextCursor
		}
	}
	if err != nil {
		return nil, "", clean("read the history", err)
	}
	return list, next, nil
}

// stamp returns the ts of a time.
func stamp(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) }
