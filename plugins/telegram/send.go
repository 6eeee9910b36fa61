package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// Lengths in UTF-16 code units of the visible text.
const (
	maxText    = 4096
	maxCaption = 1024
)

// again marks a message that may have been delivered before, which Telegram cannot show.
const again = "(possibly again) "

// nothing is sent for a text without visible characters. Telegram rejects empty messages.
const nothing = "(no text)"

// part is one message of a send.
type part struct {
	text     string
	markdown bool
	file     *channel.Attachment // with text as its caption
	replyTo  int
	markup   models.ReplyMarkup
}

// Send implements channel.Channel. A send of several messages that stopped in the middle continues where it stopped.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	to, err := parsePlace(s.Conversation.ID)
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeRefused}, err
	}
	to.chat = p.moves.now(to.chat)
	if wait := left(&p.pauses, to.chat); wait > 0 {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: wait}, fmt.Errorf("wait %s, as Telegram asked", wait)
	}
	list := p.parts(s, to)
	sent, err := channel.Series(ctx, s, len(list), func(ctx context.Context, i int) (string, error) {
		m, err := p.sendPart(ctx, to, list[i])
		if err != nil {
			return "", err
		}
		to.chat = m.Chat.ID // where the group is now
		return messageID(m.Chat.ID, m.ID), nil
	}, func(err error) (channel.Sent, error) { return p.unsuccessful(to.chat, err), p.api.words(err) })
	if sent.Outcome == channel.OutcomeSent {
		p.health.works()
	}
	return sent, err
}

// unsuccessful returns the outcome of a call that failed.
func (p *plugin) unsuccessful(chat int64, err error) channel.Sent {
	switch wait := retryAfter(err); {
	case wait > 0:
		hold(&p.pauses, chat, wait)
		p.health.hampered(p.trouble(err))
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: wait}
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound): // the token
		p.health.hampered(p.trouble(err))
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: time.Minute}
	case says(err, "not enough rights", "have no rights", "chat_write_forbidden", "topic_closed"): // an administrator can change this
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: time.Hour}
	case errors.Is(err, errGone): // the next try uploads it again
		return channel.Sent{Outcome: channel.OutcomeNotSent}
	case refused(err):
		return channel.Sent{Outcome: channel.OutcomeRefused}
	case webapi.Unsent(err):
		return channel.Sent{Outcome: channel.OutcomeNotSent}
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}
}

// parts returns the messages that a send makes: the text, in pieces when it is long for Telegram,
// then the files. A short text is the caption of the first file.
func (p *plugin) parts(s channel.Send, to place) []part {
	text, done := s.Text, s.Delivered()
	if s.PossibleDuplicate && done == 0 {
		text = marking(text)
	}
	var list []part
	caption := len(s.Attachments) > 0 && shown(text, s.Markdown) <= maxCaption
	if !caption {
		for _, piece := range pieces(text, s.Markdown) {
			list = append(list, part{text: piece, markdown: s.Markdown})
		}
	}
	for i := range s.Attachments {
		list = append(list, part{file: &s.Attachments[i]})
		if caption && i == 0 {
			list[0].text, list[0].markdown = text, s.Markdown
		}
	}
	if len(list) == 0 {
		list = []part{{text: nothing}}
	}
	list[0].replyTo = p.quoted(s, to)
	list[len(list)-1].markup = keyboard(s.Buttons)
	if s.PossibleDuplicate && done > 0 && done < len(list) {
		list[done].mark()
	}
	return list
}

// mark marks a part in the middle, if the mark fits: with other cuts, the parts would differ from those that were delivered before.
func (t *part) mark() {
	limit := maxText
	if t.file != nil {
		limit = maxCaption
	}
	if text := marking(t.text); shown(text, t.markdown) <= limit {
		t.text = text
	}
}

// marking puts the mark in front of a text, and on a line of its own where the text may begin with what is markup only at the beginning
// of a line.
func marking(text string) string {
	if r, _ := utf8.DecodeRuneInString(text); unicode.IsLetter(r) {
		return again + text
	}
	return strings.TrimSpace(again) + "\n\n" + text
}

// quoted returns the message that the first part shows as the one it answers, or 0.
func (p *plugin) quoted(s channel.Send, to place) int {
	if p.settings.Quote == "never" || p.settings.Quote == "groups" && s.Conversation.Kind == channel.DM {
		return 0
	}
	chat, message, err := parseMessageID(s.ReplyTo)
	if err != nil || chat != to.chat {
		return 0
	}
	return message
}

// pieces cuts a text into messages.
func pieces(text string, md bool) []string {
	return markdown.Split(text, maxText, func(t string) int { return shown(t, md) })
}

// shown returns how long a text shows. One that is much too long in its source is not rendered to find out.
func shown(text string, md bool) int {
	n := units(text)
	if !md || n > 2*maxText {
		return n
	}
	return units(visible(markdown.Render(text, markdown.TelegramHTML)))
}

// sendPart sends one message, once more when the group has moved.
func (p *plugin) sendPart(ctx context.Context, to place, t part) (*models.Message, error) {
	send := p.sendText
	if t.file != nil {
		send = p.sendFile
	}
	m, err := send(ctx, to, t)
	if move := (*bot.MigrateError)(nil); errors.As(err, &move) {
		if err := p.moves.add(to.chat, int64(move.MigrateToChatID)); err != nil {
			p.log.Error("a group that became a supergroup will be a new conversation after a restart", "error", err)
		}
		to.chat, t.replyTo = int64(move.MigrateToChatID), 0 // messages have other numbers there
		m, err = send(ctx, to, t)
	}
	return m, err
}

// inBothForms calls send with a text as HTML and, when Telegram does not take the markup, without any: it may be ugly then, and is
// never lost.
func inBothForms(t part, send func(text string, mode models.ParseMode) (*models.Message, error)) (*models.Message, error) {
	if !t.markdown {
		return send(t.text, "")
	}
	m, err := send(markdown.Render(t.text, markdown.TelegramHTML), models.ParseModeHTML)
	if says(err, "can't parse entities", "too long", "TOO_LONG", "text is empty") {
		m, err = send(plain(t.text), "")
	}
	return m, err
}

// plain returns a Markdown text without markup.
func plain(text string) string {
	out := markdown.Render(text, markdown.Plain)
	if out == "" {
		return nothing
	}
	return out
}

func (p *plugin) sendText(ctx context.Context, to place, t part) (*models.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return inBothForms(t, func(text string, mode models.ParseMode) (*models.Message, error) {
		return p.api.SendMessage(ctx, &bot.SendMessageParams{
			ChatID: to.chat, MessageThreadID: to.thread, Text: text, ParseMode: mode, LinkPreviewOptions: p.previews(),
			ReplyParameters: replying(t.replyTo), ReplyMarkup: t.markup,
		})
	})
}

// replying names the message that is answered; that it is gone must not keep the answer back.
func replying(to int) *models.ReplyParameters {
	if to == 0 {
		return nil
	}
	return &models.ReplyParameters{MessageID: to, AllowSendingWithoutReply: true}
}

func (p *plugin) previews() *models.LinkPreviewOptions {
	if p.settings.LinkPreviews {
		return nil
	}
	return &models.LinkPreviewOptions{IsDisabled: bot.True()}
}

// keyboard returns buttons as Telegram has them: short ones side by side, two in a row.
func keyboard(buttons []channel.Button) models.ReplyMarkup {
	if len(buttons) == 0 {
		return nil
	}
	const short = 20 // characters that fit half of a telephone
	styles := map[channel.ButtonStyle]string{channel.ButtonPrimary: "primary", channel.ButtonDanger: "danger"}
	var rows [][]models.InlineKeyboardButton
	half := false // the last row has room for a second button
	for _, b := range buttons {
		k := models.InlineKeyboardButton{Text: b.Text, CallbackData: b.Value, Style: styles[b.Style]}
		fits := units(b.Text) <= short
		if half && fits {
			rows[len(rows)-1] = append(rows[len(rows)-1], k)
			half = false
			continue
		}
		rows = append(rows, []models.InlineKeyboardButton{k})
		half = fits
	}
	return &models.InlineKeyboardMarkup{InlineKeyboard: rows}
}
