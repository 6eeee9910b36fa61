package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

// groupPace is the time between edits in a group that are not the last: Telegram lets a bot write twenty times a minute there.
const groupPace = 3 * time.Second

// Edit implements channel.Editor.
func (p *plugin) Edit(ctx context.Context, e channel.Edit) (channel.Edited, error) {
	chat, message, err := parseMessageID(e.MessageID)
	if err != nil {
		return channel.Edited{}, status.Error(codes.InvalidArgument, err.Error())
	}
	if wait := left(&p.pauses, chat); wait > 0 {
		return channel.Edited{RetryAfter: wait}, nil
	}
	if chat < 0 { // a group
		wait := left(&p.edits, chat)
		if wait > 0 && !e.Final {
			return channel.Edited{RetryAfter: wait}, nil
		}
		if wait <= 0 {
			hold(&p.edits, chat, groupPace)
		}
	}
	list := pieces(e.Text, e.Markdown)
	if len(list) == 0 {
		list = []string{nothing}
	}
	err = p.edit(ctx, chat, message, e, list)
	if wait := retryAfter(err); wait > 0 {
		hold(&p.pauses, chat, wait)
		p.health.hampered(p.trouble(err))
		return channel.Edited{RetryAfter: wait}, nil
	}
	if err != nil {
		return channel.Edited{}, p.api.final(err)
	}
	p.health.works()
	return channel.Edited{}, nil
}

// edit replaces the message by the first piece. When the text is complete, further pieces follow in other messages.
func (p *plugin) edit(ctx context.Context, chat int64, message int, e channel.Edit, list []string) error {
	last := len(list) == 1
	t := part{text: list[0], markdown: e.Markdown}
	if last || !e.Final {
		t.markup = keyboard(e.Buttons)
	}
	if err := p.editText(ctx, chat, message, t); err != nil {
		return err
	}
	if last || !e.Final {
		return nil
	}
	sent, err := p.Send(ctx, channel.Send{
		Key:          fmt.Sprintf("rest of %s", e.MessageID),
		Conversation: e.Conversation, Text: strings.Join(list[1:], "\n\n"), Markdown: e.Markdown, Buttons: e.Buttons,
	})
	if sent.Outcome == channel.OutcomeNotSent && sent.RetryAfter > 0 {
		return &bot.TooManyRequestsError{Message: "the rest waits", RetryAfter: int((sent.RetryAfter + time.Second - 1) / time.Second)}
	}
	return err
}

// editText replaces a message's text. It is not an error if the message shows that text already.
func (p *plugin) editText(ctx context.Context, chat int64, message int, t part) error {
	_, err := inBothForms(t, func(text string, mode models.ParseMode) (*models.Message, error) {
		return p.api.EditMessageText(ctx, &bot.EditMessageTextParams{
			ChatID: chat, MessageID: message, Text: text, ParseMode: mode, LinkPreviewOptions: p.previews(), ReplyMarkup: t.markup,
		})
	})
	if says(err, "message is not modified") {
		return nil
	}
	return err
}

// Delete implements channel.Deleter. A message that is gone already is deleted.
func (p *plugin) Delete(ctx context.Context, _ channel.Conversation, id string) error {
	chat, message, err := parseMessageID(id)
	if err != nil {
		return err
	}
	_, err = p.api.DeleteMessage(ctx, &bot.DeleteMessageParams{ChatID: chat, MessageID: message})
	if says(err, "message to delete not found", "MESSAGE_ID_INVALID") {
		return nil
	}
	return p.api.final(err)
}

// React implements channel.Reacter. A bot has one reaction to a message; another one replaces it.
func (p *plugin) React(ctx context.Context, r channel.Reaction) error {
	chat, message, err := parseMessageID(r.MessageID)
	if err != nil {
		return err
	}
	params := &bot.SetMessageReactionParams{ChatID: chat, MessageID: message}
	if !r.Remove {
		params.Reaction = []models.ReactionType{{
			Type: models.ReactionTypeTypeEmoji, ReactionTypeEmoji: &models.ReactionTypeEmoji{Emoji: r.Reaction},
		}}
	}
	_, err = p.api.SetMessageReaction(ctx, params)
	if says(err, "REACTION_INVALID") {
		return status.Error(codes.InvalidArgument, "Telegram does not have this reaction")
	}
	return p.api.final(err)
}

// Typing implements channel.Typer. It shows for five seconds or until a message arrives; Telegram cannot end it earlier.
func (p *plugin) Typing(ctx context.Context, t channel.Typing) error {
	to, err := parsePlace(t.Conversation.ID)
	if err != nil || !t.On {
		return err
	}
	if to.chat = p.moves.now(to.chat); left(&p.pauses, to.chat) > 0 {
		return nil
	}
	_, err = p.api.SendChatAction(ctx, &bot.SendChatActionParams{ChatID: to.chat, MessageThreadID: to.thread, Action: models.ChatActionTyping})
	return p.api.final(err)
}

// left returns how long a chat has to wait.
func left(until *cache.Map[int64, time.Time], chat int64) time.Duration {
	at, _ := until.Get(chat)
	return max(0, time.Until(at))
}

// hold makes a chat wait.
func hold(until *cache.Map[int64, time.Time], chat int64, wait time.Duration) {
	until.Set(chat, time.Now().Add(wait), wait)
}
