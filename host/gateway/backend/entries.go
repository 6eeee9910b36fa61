package backend

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// turnsAtOnce is how many turns are read at a time for a page of entries.
const turnsAtOnce = 50

// entryPage is a page of entries in the making, from its end.
type entryPage struct {
	Conversations
	channel, conversation string
	limit                 int
	waiting               []consent.Approval
	entries               []gateway.Entry // latest first
	next                  string
	taken                 map[int64]bool // messages of turns
}

// Entries implements gateway.Conversations. A cursor is a turn, and how many of its first entries are still to come: entries of a turn
// are only added at its end.
func (c Conversations) Entries(ctx context.Context, channel, conversation, cursor string, limit int) (gateway.Page[gateway.Entry], error) {
	var page gateway.Page[gateway.Entry]
	turn, left, _ := strings.Cut(cursor, ".")
	n, err := strconv.Atoi(left)
	if cursor != "" && (err != nil || n < 0 || !store.IsID(turn)) {
		return page, gateway.ErrBadCursor
	}
	p := &entryPage{Conversations: c, channel: channel, conversation: conversation, limit: limit, taken: map[int64]bool{}}
	if p.waiting, err = c.Approvals.Pending(ctx); err != nil {
		return page, err
	}
	if cursor == "" {
		err = p.begin(ctx)
	} else {
		err = p.upTo(ctx, turn, n)
	}
	slices.Reverse(p.entries)
	page.Items, page.Next = p.entries, p.next
	return page, err
}

// begin fills the page from the end of the conversation: messages that wait for a turn, and the turns before them.
func (p *entryPage) begin(ctx context.Context) error {
	turns, err := p.Store.History(ctx, p.channel, p.conversation, turnsAtOnce)
	if err != nil {
		return err
	}
	for _, t := range turns {
		for _, id := range t.Inbox {
			p.taken[id] = true
		}
	}
	if err := p.pending(ctx); err != nil {
		return err
	}
	return p.add(ctx, turns, "", 0)
}

// pending adds the messages that wait for a turn.
func (p *entryPage) pending(ctx context.Context) error {
	rows, err := p.Store.PendingInbox(ctx)
	if err != nil {
		return err
	}
	for _, r := range slices.Backward(rows) {
		m := r.Message
		if m.Channel == p.channel && m.Conversation.ID == p.conversation && !p.taken[r.ID] && len(p.entries) < p.limit {
			p.entries = append(p.entries, gateway.Entry{From: gateway.FromUser, Text: m.Text, Time: m.ReceivedAt, Key: m.EventID, Files: m.FileNames()})
		}
	}
	return nil
}

// upTo fills the page with the first n entries of a turn and those of the turns before it.
func (p *entryPage) upTo(ctx context.Context, turn string, n int) error {
	turns, err := p.Store.HistoryUpTo(ctx, p.channel, p.conversation, turn, turnsAtOnce)
	if err != nil {
		return err
	}
	return p.add(ctx, turns, turn, n)
}

// add adds turns, of one of them the first n entries, and then those before them.
func (p *entryPage) add(ctx context.Context, turns []turnlog.Turn, cut string, n int) error {
	for _, t := range slices.Backward(turns) {
		pieces, err := p.describe(ctx, t)
		if err != nil {
			return err
		}
		list := entries(t, pieces, p.waiting)
		if t.ID == cut {
			list = list[:min(n, len(list))]
		}
		room := min(p.limit-len(p.entries), len(list))
		for _, e := range slices.Backward(list[len(list)-room:]) {
			p.entries = append(p.entries, e)
		}
		if left := len(list) - room; left > 0 {
			p.next = fmt.Sprintf("%s.%d", t.ID, left)
			return nil
		}
	}
	if len(turns) < turnsAtOnce {
		return nil
	}
	return p.upTo(ctx, turns[0].ID, 0)
}
