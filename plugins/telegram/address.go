package main

import (
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"
)

// self is the bot's own account.
type self struct {
	id       int64
	username string
	// private is true in privacy mode, in which Telegram shows a bot only messages meant for it.
	private bool
}

// words describe the account to the operator.
func (s self) words() string {
	if s.private {
		return "@" + s.username + ", in privacy mode"
	}
	return "@" + s.username
}

// address reports whether a message is meant for the bot and whether it names it, and takes the address off its front.
func (s self) address(m *models.Message, t *marked) (addressed, mentioned bool) {
	mentioned = s.mentioned(t)
	command, mine, named := s.command(t)
	mentioned = mentioned || named
	switch {
	case m.Chat.Type == models.ChatTypePrivate:
		addressed = true
	case command:
		addressed = mine || mentioned
	default:
		addressed = mentioned || s.answers(m)
	}
	s.strip(t)
	return addressed, mentioned
}

// mentioned reports whether a text has a mention of the bot.
func (s self) mentioned(t *marked) bool {
	for _, e := range t.entities {
		if e.Kind == "mention" && s.is(t.of(e), e.Value) {
			return true
		}
	}
	return false
}

// is reports whether a mention's text or value is the bot.
func (s self) is(text, value string) bool {
	return s.username != "" && strings.EqualFold(text, "@"+s.username) || value == strconv.FormatInt(s.id, 10)
}

// command parses a command at the beginning of a text: whether there is one, whether it is for the bot, and whether it names the bot.
func (s self) command(t *marked) (there, mine, named bool) {
	for _, e := range t.entities {
		if e.Kind != "command" || e.Offset != 0 {
			continue
		}
		name, bot, to := strings.Cut(t.of(e), "@")
		if !to {
			return true, s.private, false
		}
		if !strings.EqualFold(bot, s.username) {
			return true, false, false
		}
		t.cut(len(name), e.Length)
		return true, true, true
	}
	return false, false, false
}

// answers reports whether a message is a reply to one of the bot's.
func (s self) answers(m *models.Message) bool {
	r := repliesTo(m)
	return r != nil && r.From != nil && r.From.ID == s.id
}

// repliesTo returns the message that m answers. A message in a topic formally answers the topic's first message, which does not count.
func repliesTo(m *models.Message) *models.Message {
	r := m.ReplyToMessage
	if r == nil || r.ForumTopicCreated != nil {
		return nil
	}
	return r
}

// strip takes a mention of the bot off the front, unless it is all there is.
func (s self) strip(t *marked) {
	for _, e := range t.entities {
		if e.Offset != 0 || e.Kind != "mention" || !s.is(t.of(e), e.Value) {
			continue
		}
		rest := strings.TrimLeft(t.text[e.Length:], ",:; \n")
		if rest != "" {
			t.cut(0, len(t.text)-len(rest))
		}
		return
	}
}
