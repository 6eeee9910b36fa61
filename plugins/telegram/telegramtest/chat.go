package telegramtest

import (
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf16"
)

// User is a person or a bot.
type User struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name,omitempty"`
	Username  string `json:"username,omitempty"`
}

// ChatInfo is a chat as part of messages.
type ChatInfo struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"` // "private", "group", "supergroup", "channel"
	Title     string `json:"title,omitempty"`
	Username  string `json:"username,omitempty"`
	FirstName string `json:"first_name,omitempty"`
	IsForum   bool   `json:"is_forum,omitempty"`
}

// Entity marks a range of text, in UTF-16 code units.
type Entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	URL    string `json:"url,omitempty"`
	User   *User  `json:"user,omitempty"`
}

// Fields are further fields of a message, by the API's names. They override those that Say sets.
type Fields map[string]any

// Message is a message of a chat as it is shown.
type Message struct {
	ID       int64
	FromBot  bool
	Text     string // or caption; the visible text
	Markup   string // text as it was sent
	Mode     string // parse_mode
	Thread   int64
	ReplyTo  int64
	Keyboard string // reply_markup
	Media    string // "photo", "document"
	Upload   Upload
	Reaction string
	Edits    int
	fields   Fields
}

// Chat is a chat on the server, in which tests act for people.
type Chat struct {
	ChatInfo
	Ann User // the author unless a test says otherwise

	s         *Server
	messages  []*Message
	last      int64
	blocked   string
	migrateTo int64
}

// Private makes the private chat of a new person.
func (s *Server) Private(name string) *Chat {
	u := s.Person(name)
	return s.open(&Chat{ChatInfo: ChatInfo{ID: u.ID, Type: "private", FirstName: name, Username: u.Username}, Ann: u})
}

// Group makes a basic group.
func (s *Server) Group(title string) *Chat {
	u := s.Person("Ann")
	return s.open(&Chat{ChatInfo: ChatInfo{ID: -u.ID, Type: "group", Title: title}, Ann: u})
}

// Supergroup makes a supergroup, with topics or without. Its username is its title in lower case.
func (s *Server) Supergroup(title string, topics bool) *Chat {
	u := s.Person("Ann")
	return s.open(&Chat{
		ChatInfo: ChatInfo{ID: -1_000_000_000_000 - u.ID, Type: "supergroup", Title: title, Username: strings.ToLower(title), IsForum: topics}, Ann: u,
	})
}

// Channel makes a channel.
func (s *Server) Channel(title string) *Chat {
	u := s.Person("Ann")
	return s.open(&Chat{ChatInfo: ChatInfo{ID: -1_000_000_000_000 - u.ID, Type: "channel", Title: title}, Ann: u})
}

// Person makes a new person.
func (s *Server) Person(name string) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people++
	return User{ID: 5_000_000_000 + s.people, FirstName: name, Username: fmt.Sprintf("%s_%d", strings.ToLower(name), s.people)}
}

func (s *Server) open(c *Chat) *Chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.s = s
	s.chats[c.ID] = c
	return c
}

// Say writes as the chat's first person.
func (c *Chat) Say(text string) int64 { return c.SayAs(c.Ann, text, nil) }

// SayAs writes as somebody, with further fields of the message, and returns its id. A command at the front and mentions are marked as
// the real server marks them.
func (c *Chat) SayAs(who User, text string, more Fields) int64 {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, kind := c.compose(who, text, more)
	c.s.push(kind, m.fields)
	return m.ID
}

// compose adds a message to the chat; c.s.mu is held.
func (c *Chat) compose(who User, text string, more Fields) (*Message, string) {
	c.last++
	fields := Fields{"message_id": c.last, "chat": c.ChatInfo, "date": time.Now().Unix()}
	kind := "message"
	if c.Type == "channel" {
		kind, fields["sender_chat"] = "channel_post", c.ChatInfo
	} else {
		fields["from"] = who
	}
	if text != "" {
		fields["text"] = text
		if marks := mark(text); marks != nil {
			fields["entities"] = marks
		}
	}
	maps.Copy(fields, more)
	m := &Message{ID: c.last, Text: text, fields: fields}
	c.messages = append(c.messages, m)
	return m, kind
}

// ReplyTo returns the field by which a message answers an earlier one.
func (c *Chat) ReplyTo(id int64) Fields {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.find(id)
	if m == nil {
		c.s.t.Fatalf("telegramtest: no message %d to reply to", id)
	}
	return Fields{"reply_to_message": m.fields}
}

// Edit changes a message that Say wrote.
func (c *Chat) Edit(id int64, text string) int64 {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.find(id)
	if m == nil {
		c.s.t.Fatalf("telegramtest: no message %d to edit", id)
	}
	m.Text = text
	edited := maps.Clone(m.fields)
	edited["text"], edited["edit_date"] = text, time.Now().Unix()
	delete(edited, "entities")
	if marks := mark(text); marks != nil {
		edited["entities"] = marks
	}
	m.fields = edited
	kind := "edited_message"
	if c.Type == "channel" {
		kind = "edited_channel_post"
	}
	return c.s.push(kind, edited)
}

// Press presses a button with a value below a message of the bot, and returns the id of the query.
func (c *Chat) Press(who User, id int64, value string) string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.find(id)
	if m == nil {
		c.s.t.Fatalf("telegramtest: no message %d with buttons", id)
	}
	query := fmt.Sprint(88_000_000_000 + c.s.queue.next)
	c.s.queries[query] = true
	c.s.push("callback_query", map[string]any{"id": query, "from": who, "message": m.fields, "chat_instance": "7", "data": value})
	return query
}

// React sets a person's reactions to a message; none removes them.
func (c *Chat) React(who User, id int64, was, now []string) {
	list := func(emoji []string) []map[string]string {
		out := []map[string]string{}
		for _, e := range emoji {
			out = append(out, map[string]string{"type": "emoji", "emoji": e})
		}
		return out
	}
	c.s.Push("message_reaction", map[string]any{
		"chat": c.ChatInfo, "message_id": id, "user": who, "date": time.Now().Unix(), "old_reaction": list(was), "new_reaction": list(now),
	})
}

// Block makes the chat refuse messages of the bot with these words, such as "Forbidden: bot was blocked by the user"; "" ends it.
func (c *Chat) Block(description string) {
	defer c.s.mu.Change()()
	c.blocked = description
}

// Migrate turns a basic group into a supergroup and returns it. Both say so, as on the real server.
func (c *Chat) Migrate() *Chat {
	to := c.s.Supergroup(c.Title, false)
	c.s.mu.Lock()
	c.migrateTo = to.ID
	to.Ann = c.Ann
	c.s.mu.Unlock()
	c.SayAs(c.Ann, "", Fields{"migrate_to_chat_id": to.ID})
	to.SayAs(c.Ann, "", Fields{"migrate_from_chat_id": c.ID})
	return to
}

// Messages returns the bot's messages in the chat, oldest first.
func (c *Chat) Messages() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.fromBot()
}

func (c *Chat) fromBot() []Message {
	var out []Message
	for _, m := range c.messages {
		if m.FromBot {
			out = append(out, *m)
		}
	}
	return out
}

// AwaitMessages waits until the chat shows n messages of the bot, and returns them.
func (c *Chat) AwaitMessages(n int) []Message {
	c.s.t.Helper()
	var got []Message
	c.s.mu.Await(c.s.t, fmt.Sprintf("%d messages of the bot in chat %d", n, c.ID), func() bool {
		got = c.fromBot()
		return len(got) >= n
	})
	return got
}

// AwaitText waits until the n-th message of the bot has a text, and returns it. An earlier text may be a draft.
func (c *Chat) AwaitText(n int, text string) Message {
	c.s.t.Helper()
	var got Message
	c.s.mu.Await(c.s.t, fmt.Sprintf("message %d of the bot in chat %d says %q", n, c.ID, text), func() bool {
		all := c.fromBot()
		if len(all) < n {
			return false
		}
		got = all[n-1]
		return got.Text == text
	})
	return got
}

// find returns a message; c.s.mu is held.
func (c *Chat) find(id int64) *Message {
	for _, m := range c.messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// mark finds the commands, mentions and links of a text.
func mark(text string) []Entity {
	var out []Entity
	at := 0
	for i, word := range strings.SplitAfter(text, " ") {
		bare := strings.TrimRight(word, " .,:;!?")
		kind := ""
		switch {
		case strings.HasPrefix(bare, "/") && len(bare) > 1 && i == 0:
			kind = "bot_command"
		case strings.HasPrefix(bare, "@") && len(bare) > 4:
			kind = "mention"
		case strings.HasPrefix(bare, "https://"):
			kind = "url"
		}
		if kind != "" {
			out = append(out, Entity{Type: kind, Offset: at, Length: units(bare)})
		}
		at += units(word)
	}
	return out
}

// units returns the length of a text as the API counts it.
func units(s string) int { return len(utf16.Encode([]rune(s))) }
