package discordtest

import (
	"slices"
	"strings"
	"time"
)

// The kinds of channel.
const (
	Text   = 0
	DM     = 1
	Thread = 11
)

// Channel is a place with messages.
type Channel struct {
	ID            string `json:"id"`
	Type          int    `json:"type"`
	GuildID       string `json:"guild_id,omitempty"`
	Name          string `json:"name,omitempty"`
	ParentID      string `json:"parent_id,omitempty"`
	LastMessageID string `json:"last_message_id,omitempty"`

	messages []*Message
}

// Message is a message as it is on the wire.
type Message struct {
	ID              string            `json:"id"`
	Type            int               `json:"type"`
	ChannelID       string            `json:"channel_id"`
	GuildID         string            `json:"guild_id,omitempty"`
	Author          User              `json:"author"`
	Member          *Member           `json:"member,omitempty"`
	Content         string            `json:"content"`
	Timestamp       time.Time         `json:"timestamp"`
	EditedTimestamp *time.Time        `json:"edited_timestamp"`
	Mentions        []User            `json:"mentions"`
	MentionRoles    []string          `json:"mention_roles"`
	Attachments     []Attachment      `json:"attachments"`
	Embeds          []any             `json:"embeds"`
	Components      []Row             `json:"components"`
	WebhookID       string            `json:"webhook_id,omitempty"`
	Nonce           string            `json:"nonce,omitempty"`
	Reference       *Reference        `json:"message_reference,omitempty"`
	Referenced      *Message          `json:"referenced_message,omitempty"`
	Allowed         *AllowedMentions  `json:"-"` // what the bot asked for
	Reactions       map[string]string `json:"-"` // emoji of the bot
}

// Member is a user's membership in a guild.
type Member struct {
	Nick  string   `json:"nick,omitempty"`
	Roles []string `json:"roles"`
}

// Attachment is a file of a message.
type Attachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Size        int    `json:"size"`
	URL         string `json:"url"`
}

// Row is a row of components.
type Row struct {
	Type       int         `json:"type"`
	Components []Component `json:"components"`
}

// Component is a button.
type Component struct {
	Type     int    `json:"type"`
	Style    int    `json:"style"`
	Label    string `json:"label"`
	CustomID string `json:"custom_id"`
}

// Reference is the message that a message answers.
type Reference struct {
	MessageID       string `json:"message_id"`
	ChannelID       string `json:"channel_id,omitempty"`
	FailIfNotExists *bool  `json:"fail_if_not_exists,omitempty"`
}

// AllowedMentions limits who is notified.
type AllowedMentions struct {
	Parse       []string `json:"parse"`
	Users       []string `json:"users"`
	RepliedUser bool     `json:"replied_user"`
}

// Role is a role of a guild.
type Role struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Position int       `json:"position"`
	Tags     *RoleTags `json:"tags,omitempty"`
}

// RoleTags name the owner of a role.
type RoleTags struct {
	BotID string `json:"bot_id,omitempty"`
}

type guild struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	OwnerID  string     `json:"owner_id"`
	Roles    []Role     `json:"roles"`
	Channels []*Channel `json:"channels"`
	Threads  []*Channel `json:"threads"`

	members map[string]*Member
}

// Person makes a user.
func (s *Server) Person(name string) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := User{ID: s.id(), Username: strings.ToLower(name), GlobalName: name}
	s.users[u.ID] = u
	return u
}

// Guild makes a guild; roles are given from the lowest to the highest.
func (s *Server) Guild(owner User, roles ...string) (id string, roleIDs []string) {
	defer s.mu.Change()()
	g := &guild{ID: s.id(), Name: "guild", OwnerID: owner.ID, members: map[string]*Member{}}
	g.Roles = append(g.Roles, Role{ID: g.ID, Name: "@everyone"})
	for i, name := range roles {
		r := Role{ID: s.id(), Name: name, Position: i + 1}
		g.Roles = append(g.Roles, r)
		roleIDs = append(roleIDs, r.ID)
	}
	s.guilds = append(s.guilds, g)
	s.dispatch("GUILD_CREATE", g)
	return g.ID, roleIDs
}

// Give gives a member of a guild roles.
func (s *Server) Give(guildID string, u User, roleIDs ...string) {
	defer s.mu.Change()()
	s.guild(guildID).members[u.ID] = &Member{Roles: roleIDs}
}

func (s *Server) guild(id string) *guild {
	i := slices.IndexFunc(s.guilds, func(g *guild) bool { return g.ID == id })
	if i < 0 {
		return nil
	}
	return s.guilds[i]
}

// Channel makes a text channel of a guild, a thread of a channel, or, without either, a private chat.
func (s *Server) Channel(guildID, parent string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Channel{ID: s.id(), GuildID: guildID, ParentID: parent, Name: "channel"}
	s.channels[c.ID] = c
	switch g := s.guild(guildID); {
	case g == nil:
		c.Type = DM
		s.dispatch("CHANNEL_CREATE", c)
	case parent != "":
		c.Type = Thread
		g.Threads = append(g.Threads, c)
		s.dispatch("THREAD_CREATE", c)
	default:
		g.Channels = append(g.Channels, c)
		s.dispatch("CHANNEL_CREATE", c)
	}
	return c.ID
}

// Say makes a person write a message. change, if any, completes it.
func (s *Server) Say(channel string, author User, text string, change ...func(*Message)) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &Message{Author: author, Content: text}
	for _, f := range change {
		f(m)
	}
	s.post(s.channels[channel], m)
	return m.ID
}

// post adds a message to a channel. s.mu is held.
func (s *Server) post(c *Channel, m *Message) {
	m.ID, m.ChannelID, m.GuildID, m.Timestamp = s.id(), c.ID, c.GuildID, time.Now().UTC()
	m.Mentions, m.MentionRoles, m.Embeds = []User{}, append([]string{}, m.MentionRoles...), []any{}
	m.Attachments, m.Components = append([]Attachment{}, m.Attachments...), append([]Row{}, m.Components...)
	for _, u := range s.users {
		if strings.Contains(m.Content, "<@"+u.ID+">") {
			m.Mentions = append(m.Mentions, u)
		}
	}
	if g := s.guild(c.GuildID); g != nil && m.Member == nil && m.WebhookID == "" {
		m.Member = g.members[m.Author.ID]
	}
	if m.Reference != nil {
		m.Type, m.Referenced = 19, c.message(m.Reference.MessageID)
	}
	c.messages, c.LastMessageID = append(c.messages, m), m.ID
	if m.Author.ID == s.Self.ID {
		s.mu.Shown(m.Content)
	}
	s.dispatch("MESSAGE_CREATE", m)
}

func (c *Channel) message(id string) *Message {
	i := slices.IndexFunc(c.messages, func(m *Message) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return c.messages[i]
}

// Change makes a person edit a message; an empty text changes only its embeds, as for a late preview.
func (s *Server) Change(channel, id, text string) {
	defer s.mu.Change()()
	m := s.channels[channel].message(id)
	if text != "" {
		now := time.Now().UTC()
		m.Content, m.EditedTimestamp = text, &now
	}
	s.dispatch("MESSAGE_UPDATE", m)
}

// Remove deletes a message.
func (s *Server) Remove(channel, id string) {
	defer s.mu.Change()()
	s.remove(s.channels[channel], id)
}

func (s *Server) remove(c *Channel, id string) {
	c.messages = slices.DeleteFunc(c.messages, func(m *Message) bool { return m.ID == id })
	s.dispatch("MESSAGE_DELETE", map[string]string{"id": id, "channel_id": c.ID, "guild_id": c.GuildID})
}

// React makes a person react with an emoji.
func (s *Server) React(channel, id string, u User, emoji string) {
	defer s.mu.Change()()
	c := s.channels[channel]
	s.dispatch("MESSAGE_REACTION_ADD", map[string]any{
		"user_id": u.ID, "channel_id": c.ID, "message_id": id, "guild_id": c.GuildID, "emoji": map[string]any{"id": nil, "name": emoji},
	})
}

// File adds a file to the CDN, for a message.
func (s *Server) File(name, kind string, body []byte) func(*Message) {
	return func(m *Message) { m.Attachments = append(m.Attachments, s.attach(name, kind, body)) }
}

// attach adds a file to the CDN. s.mu is held.
func (s *Server) attach(name, kind string, body []byte) Attachment {
	id := s.id()
	s.files[id] = file{name: name, kind: kind, body: body, signature: s.id()}
	return Attachment{ID: id, Filename: name, ContentType: kind, Size: len(body), URL: s.address(id)}
}

func (s *Server) address(id string) string {
	return s.http.URL + "/cdn/attachments/" + id + "/" + s.files[id].name + "?sig=" + s.files[id].signature
}

// Expire makes the addresses of all files that were given out so far useless.
func (s *Server) Expire() {
	defer s.mu.Change()()
	for id, f := range s.files {
		f.signature = s.id()
		s.files[id] = f
	}
}

// Messages returns those that the bot has in a channel.
func (s *Server) Messages(channel string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.channels[channel].messages {
		if m.Author.ID == s.Self.ID {
			out = append(out, *m)
		}
	}
	return out
}

// Typing returns how often the bot was shown typing.
func (s *Server) Typing(channel string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.typing[channel]
}

// Body returns the content of an attachment on the CDN.
func (s *Server) Body(a Attachment) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[a.ID].body
}
