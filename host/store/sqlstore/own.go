package sqlstore

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
)

// isPrivate selects the turns of private conversations.
const isPrivate = "json_extract(CAST(place AS TEXT), '$.kind') = 'dm'"

// ConversationsOf implements turnlog.Own.
func (s *Store) ConversationsOf(ctx context.Context, sender message.SenderKey, limit int) ([]turnlog.Conversation, error) {
	return list(ctx, s.read, func(scan func(...any) error) (c turnlog.Conversation, err error) {
		var started, ended int64
		err = scan(&c.Channel, &c.ID, &c.Turns, &c.Agent, &started, &ended)
		c.Last = instant(max(started, ended))
		return c, err
	}, `SELECT c.channel, c.conversation, c.turns, t.agent, t.started, t.ended FROM
		(SELECT channel, conversation, count(*) AS turns, max(id) AS latest FROM turns WHERE sender = ?1 AND parent = '' AND channel <> ?2 AND `+isPrivate+`
			GROUP BY channel, conversation) c JOIN turns t ON t.id = c.latest
		WHERE NOT EXISTS (SELECT 1 FROM turns o WHERE o.channel = c.channel AND o.conversation = c.conversation AND o.sender <> ?1)
		ORDER BY c.latest DESC LIMIT ?3`, sender, message.ScheduleChannel, limit)
}

// BelongsTo implements turnlog.Own.
func (s *Store) BelongsTo(ctx context.Context, sender message.SenderKey, conversation message.ConversationKey) (bool, error) {
	channel, id, _ := conversation.Cut()
	return one(ctx, s.read, scanFlag, `SELECT EXISTS (SELECT 1 FROM turns WHERE channel = ?1 AND conversation = ?2 AND sender = ?3)
		AND NOT EXISTS (SELECT 1 FROM turns WHERE channel = ?1 AND conversation = ?2 AND (sender <> ?3 OR NOT `+isPrivate+`))
		AND NOT EXISTS (SELECT 1 FROM inbox WHERE state = 'new' AND channel = ?1 AND json_extract(CAST(message AS TEXT), '$.conversation.id') = ?2
			AND json_extract(CAST(message AS TEXT), '$.sender.id') <> ?4)`,
		channel, id, sender, senderOn(channel, sender))
}

// senderOn returns the id of a sender in the messages of a channel instance.
func senderOn(channel string, sender message.SenderKey) string {
	if message.ForeignSenders(channel) {
		return string(sender)
	}
	return sender.ID()
}

// SessionsOf implements turnlog.Own.
func (s *Store) SessionsOf(ctx context.Context, person ...message.SenderKey) ([]message.SessionKey, error) {
	ids, err := jsonform.Marshal(person)
	if err != nil || len(person) == 0 {
		return nil, err
	}
	return list(ctx, s.read, scanText[message.SessionKey], `WITH person AS (SELECT value AS id FROM json_each(CAST(?1 AS TEXT)))
		SELECT s.session FROM (SELECT DISTINCT session FROM turns WHERE sender IN (SELECT id FROM person) AND parent = '') s
		WHERE NOT EXISTS (SELECT 1 FROM turns o WHERE o.session = s.session AND o.sender NOT IN (SELECT id FROM person))
		AND EXISTS (SELECT 1 FROM sessions WHERE key = s.session) ORDER BY 1`, string(ids))
}
