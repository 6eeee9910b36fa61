package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/flynnhost/flynn/sdk/channel"
)

// Edit implements channel.Editor. Text that exceeds the message is sent in further messages when the text is final.
func (p *plugin) Edit(ctx context.Context, e channel.Edit) (channel.Edited, error) {
	if !isSnowflake(e.Conversation.ID) || !isSnowflake(e.MessageID) {
		return channel.Edited{}, errors.New("edit: the message id is not one of discord")
	}
	all := pieces(e.Text, e.Markdown)
	if len(all) == 0 {
		return channel.Edited{}, errors.New("edit: the text is empty")
	}
	m := outgoing{Content: all[0], AllowedMentions: allowedMentions{Parse: []string{}}, Components: rows(e.Buttons)}
	err := p.client.call(ctx, "PATCH", "/channels/"+e.Conversation.ID+"/messages/"+e.MessageID, m, nil)
	if limited, ok := errors.AsType[*limitedError](err); ok {
		return channel.Edited{RetryAfter: limited.after}, nil
	}
	if err != nil {
		return channel.Edited{}, fmt.Errorf("edit: %w", err)
	}
	if e.Final {
		return channel.Edited{}, p.rest(ctx, e, all[1:])
	}
	return channel.Edited{}, nil
}

// rest sends what a final edit could not hold. It waits for rate limits to pass, because nobody would send it again.
func (p *plugin) rest(ctx context.Context, e channel.Edit, pieces []string) error {
	for i, piece := range pieces {
		m := outgoing{
			Content: piece, Nonce: nonce("edit "+e.MessageID+" "+strconv.FormatUint(e.Revision, 10), i), EnforceNonce: true,
			AllowedMentions: allowedMentions{Parse: []string{}}, Components: []row{},
		}
		if err := p.client.patient(ctx, "POST", "/channels/"+e.Conversation.ID+"/messages", m, nil); err != nil {
			return fmt.Errorf("send the rest of an edit: %w", err)
		}
	}
	return nil
}

// Delete implements channel.Deleter. A message that is gone already is no error.
func (p *plugin) Delete(ctx context.Context, c channel.Conversation, messageID string) error {
	if !isSnowflake(c.ID) || !isSnowflake(messageID) {
		return errors.New("delete: the message id is not one of discord")
	}
	err := p.client.call(ctx, "DELETE", "/channels/"+c.ID+"/messages/"+messageID, nil, nil)
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.code == 10008 {
		return nil
	}
	return err
}

// React implements channel.Reacter. An emoji of a server is written "name:id".
func (p *plugin) React(ctx context.Context, r channel.Reaction) error {
	if !isSnowflake(r.Conversation.ID) || !isSnowflake(r.MessageID) || r.Reaction == "" || len(r.Reaction) > 100 {
		return errors.New("react: not a message or an emoji of discord")
	}
	method := "PUT"
	if r.Remove {
		method = "DELETE"
	}
	path := "/channels/" + r.Conversation.ID + "/messages/" + r.MessageID + "/reactions/" + url.PathEscape(r.Reaction) + "/@me"
	return p.client.call(ctx, method, path, nil, nil)
}

// Typing implements channel.Typer. Discord shows it for ten seconds, or until the next message; it cannot be taken back.
func (p *plugin) Typing(ctx context.Context, t channel.Typing) error {
	if !t.On || !isSnowflake(t.Conversation.ID) {
		return nil
	}
	return p.client.call(ctx, "POST", "/channels/"+t.Conversation.ID+"/typing", nil, nil)
}
