package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
)

// place is where a message is: a chat and, in a forum, a topic.
type place struct {
	chat   int64
	thread int // 0: no topic, or the general one
}

// id returns the conversation's id: "CHAT" or "CHAT/TOPIC".
func (p place) id() string {
	if p.thread == 0 {
		return strconv.FormatInt(p.chat, 10)
	}
	return fmt.Sprintf("%d/%d", p.chat, p.thread)
}

func parsePlace(id string) (place, error) {
	chat, thread, topic := strings.Cut(id, "/")
	var p place
	var err error
	if p.chat, err = strconv.ParseInt(chat, 10, 64); err == nil && topic {
		p.thread, err = strconv.Atoi(thread)
	}
	if err != nil || p.chat == 0 || topic && p.thread <= 0 {
		return place{}, fmt.Errorf("%q is not a conversation of Telegram", id)
	}
	return p, nil
}

// messageID returns "CHAT:MESSAGE": Telegram counts the messages of each chat by itself.
func messageID(chat int64, message int) string { return fmt.Sprintf("%d:%d", chat, message) }

func parseMessageID(id string) (chat int64, message int, err error) {
	c, m, _ := strings.Cut(id, ":")
	chat, err = strconv.ParseInt(c, 10, 64)
	if err == nil {
		message, err = strconv.Atoi(m)
	}
	if err != nil || chat == 0 || message <= 0 {
		return 0, 0, fmt.Errorf("%q is not a message of Telegram", id)
	}
	return chat, message, nil
}

// conversation returns the conversation of a message. A supergroup that was a basic group keeps the group's id, so that the conversation
// continues.
func (p *plugin) conversation(chat models.Chat, thread int) channel.Conversation {
	home := place{p.moves.first(chat.ID), thread}
	c := channel.Conversation{ID: home.id(), Kind: channel.Group}
	if thread != 0 {
		c.Kind, c.Parent = channel.Thread, place{chat: home.chat}.id()
	}
	if chat.Type == models.ChatTypePrivate {
		c.Kind = channel.DM
	}
	return c
}

// topic returns the topic of a message. In other groups the same field counts replies, which make no conversation.
func topic(m *models.Message) int {
	if !m.IsTopicMessage {
		return 0
	}
	return m.MessageThreadID
}

// moves are the basic groups that became supergroups, with new ids. They are stored on disk, because Telegram reports that only once.
type moves struct {
	config channel.Config

	mu sync.Mutex
	to map[int64]int64 // from the group to the supergroup
}

const (
	maxMoves  = 10_000
	movesFile = "moves.json"
)

func openMoves(c channel.Config) (*moves, error) {
	m := &moves{config: c, to: map[int64]int64{}}
	_, err := c.ReadState(movesFile, &m.to)
	return m, err
}

// add records a move.
func (m *moves) add(from, to int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from == to || to == 0 || m.to[from] == to || len(m.to) >= maxMoves {
		return nil
	}
	m.to[from] = to
	return m.config.WriteState(movesFile, m.to)
}

// first returns the id that a chat had before it moved.
func (m *moves) first(chat int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for from, to := range m.to {
		if to == chat {
			return from
		}
	}
	return chat
}

// now returns the id that a chat has today.
func (m *moves) now(chat int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if to, ok := m.to[chat]; ok {
		return to
	}
	return chat
}
