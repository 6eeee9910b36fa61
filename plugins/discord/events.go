package main

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/flynnhost/flynn/sdk/channel"
)

// dispatch handles one event of the gateway. An error ends the connection, which is then resumed behind the last event that went well.
func (p *plugin) dispatch(ctx context.Context, in channel.Inbox, kind string, seq int64, data json.RawMessage) error {
	x := &incoming{plugin: p, in: in, ctx: ctx, session: p.gateway.session.ID, seq: seq, raw: data}
	if kind != "READY" { // a resumed session begins with the missed events
		p.online(in)
	}
	err := x.handle(kind)
	if !x.handed && err == nil {
		p.position.passed(seq)
	}
	if err == nil && kind == "READY" {
		return p.position.save() // the session can be resumed from now on
	}
	return err
}

// incoming is an event of the gateway on its way in.
type incoming struct {
	*plugin
	in      channel.Inbox
	ctx     context.Context
	session string
	seq     int64 // 0 for a fetched message
	raw     []byte
	handed  bool
}

// read decodes the event. One that cannot be read is passed over: it would be as unreadable the next time.
func read[T any](x *incoming, handle func(*T) error) error {
	var v T
	if err := json.Unmarshal(x.raw, &v); err != nil {
		x.log.Warn("cannot read an event", "error", err)
		return nil
	}
	return handle(&v)
}

func (x *incoming) handle(kind string) error {
	switch kind {
	case "READY":
		return read(x, x.ready)
	case "GUILD_CREATE":
		return read(x, x.guildCreate)
	case "GUILD_UPDATE":
		return read(x, func(g *discordgo.Guild) error { x.world.setGuild(g); return nil })
	case "GUILD_DELETE":
		return read(x, func(g *discordgo.Guild) error {
			if !g.Unavailable {
				x.world.dropGuild(g.ID)
			}
			return nil
		})
	case "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE":
		return read(x, func(e *discordgo.GuildRole) error { x.world.setRole(e.GuildID, e.Role); return nil })
	case "GUILD_ROLE_DELETE":
		return read(x, func(e *discordgo.GuildRoleDelete) error { x.world.dropRole(e.GuildID, e.RoleID); return nil })
	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE":
		return read(x, func(c *discordgo.Channel) error { x.world.setChannel(c, ""); return nil })
	case "THREAD_LIST_SYNC":
		return read(x, func(e *discordgo.ThreadListSync) error {
			for _, c := range e.Threads {
				if c != nil {
					x.world.setChannel(c, e.GuildID)
				}
			}
			return nil
		})
	case "MESSAGE_CREATE":
		return read(x, x.message)
	case "MESSAGE_UPDATE":
		return read(x, x.edit)
	case "MESSAGE_DELETE":
		return read(x, func(m *discordgo.Message) error { return x.deleted(m.ChannelID, m.GuildID, m.ID) })
	case "MESSAGE_DELETE_BULK":
		return read(x, func(e *discordgo.MessageDeleteBulk) error {
			for _, id := range e.Messages {
				if err := x.deleted(e.ChannelID, e.GuildID, id); err != nil {
					return err
				}
			}
			return nil
		})
	case "MESSAGE_REACTION_ADD":
		return read(x, x.reaction)
	case "INTERACTION_CREATE":
		return read(x, x.interaction)
	}
	return nil
}

// deliver delivers an event. The channel's position advances when the host has it.
func (x *incoming) deliver(e channel.Event, then func(error)) error {
	last := ""
	if e.Kind == channel.EventMessage && isSnowflake(e.ID) && then == nil {
		last = e.ID
	}
	x.handed = true
	x.position.handed(x.seq)
	return x.in.DeliverAsync(x.ctx, e, func(err error) {
		if channel.Settled(err) {
			x.position.acked(x.session, x.seq, e.Conversation.ID, last, err == nil && e.Conversation.Kind == channel.DM)
		}
		if then != nil {
			then(err)
		}
	})
}

func (x *incoming) conversation(channelID, guildID string) (channel.Conversation, room) {
	r := x.whereIs(x.ctx, channelID, guildID)
	return channel.Conversation{ID: channelID, Kind: r.kind, Parent: r.parent}, r
}

// whole reports whether a message has an id, a channel and an author.
func whole(m *discordgo.Message) bool {
	return m.Author != nil && isSnowflake(m.Author.ID) && isSnowflake(m.ID) && isSnowflake(m.ChannelID)
}

// message delivers a message of a user.
func (x *incoming) message(m *discordgo.Message) error {
	if !whole(m) {
		return nil
	}
	if x.world.is(m.Author.ID) {
		x.echo(m)
		return nil
	}
	if m.Type != discordgo.MessageTypeDefault && m.Type != discordgo.MessageTypeReply {
		return nil // such as a pin or a new member
	}
	e := x.event(m)
	if e.Text == "" && len(e.Attachments) == 0 && !e.Addressed {
		return nil // the bot may not see the content, or there is none
	}
	if e.Conversation.Kind == channel.DM {
		if err := x.position.meet(e.Conversation.ID, e.ID); err != nil {
			return err
		}
	}
	return x.deliver(e, nil)
}

// edit delivers the new text of a message. An update without an edit time concerns a preview.
func (x *incoming) edit(m *discordgo.Message) error {
	if !whole(m) || m.EditedTimestamp == nil || x.world.is(m.Author.ID) {
		return nil
	}
	e := x.event(m)
	e.Kind, e.TargetID, e.SentAt = channel.EventEdit, m.ID, *m.EditedTimestamp
	e.ID = m.ID + "-edit-" + m.EditedTimestamp.UTC().Format(time.RFC3339Nano)
	return x.deliver(e, nil)
}

func (x *incoming) deleted(channelID, guildID, id string) error {
	if !isSnowflake(id) || !isSnowflake(channelID) {
		return nil
	}
	where, _ := x.conversation(channelID, guildID)
	return x.deliver(channel.Event{
		ID: id + "-delete", Kind: channel.EventDelete, TargetID: id, Conversation: where, Sender: channel.Sender{ID: "unknown"}, SentAt: time.Now(),
	}, nil)
}

// reaction delivers a reaction. Its id is the sequence number within the session, which stays the same when it is replayed.
func (x *incoming) reaction(r *discordgo.MessageReactionAdd) error {
	if r.MessageReaction == nil || x.world.is(r.UserID) || !isSnowflake(r.UserID) || !isSnowflake(r.MessageID) || !isSnowflake(r.ChannelID) {
		return nil
	}
	where, room := x.conversation(r.ChannelID, r.GuildID)
	s := channel.Sender{ID: r.UserID, Name: r.UserID}
	if r.Member != nil && r.Member.User != nil && r.Member.User.ID == r.UserID {
		s = x.sender(r.Member.User, r.Member, room.guild)
	}
	return x.deliver(channel.Event{
		ID: "reaction-" + x.session + "-" + itoa(x.seq), Kind: channel.EventReaction, Text: r.Emoji.MessageFormat(), TargetID: r.MessageID,
		Conversation: where, Sender: s, SentAt: time.Now(),
	}, nil)
}

// event makes an event of a message.
func (x *incoming) event(m *discordgo.Message) channel.Event {
	where, room := x.conversation(m.ChannelID, m.GuildID)
	e := channel.Event{ID: m.ID, Conversation: where, Sender: x.sender(m.Author, m.Member, room.guild), SentAt: m.Timestamp, RawJSON: x.raw}
	if m.WebhookID != "" {
		e.Sender = channel.Sender{ID: "webhook:" + m.WebhookID, Name: m.Author.Username, Bot: true}
	}
	e.Mentioned = slices.ContainsFunc(m.Mentions, func(u *discordgo.User) bool { return u != nil && x.world.is(u.ID) }) &&
		strings.Contains(m.Content, "@")
	e.Addressed = e.Mentioned || where.Kind == channel.DM
	if m.MessageReference != nil && m.Type == discordgo.MessageTypeReply {
		e.ReplyTo = m.MessageReference.MessageID
		answered := m.ReferencedMessage
		e.Addressed = e.Addressed || answered != nil && answered.Author != nil && x.world.is(answered.Author.ID)
	}
	self, _ := x.world.ids()
	e.Text, e.Entities = readable(m.Content, self, m.Mentions)
	for _, a := range m.Attachments[:min(len(m.Attachments), 20)] {
		if a != nil && isSnowflake(a.ID) {
			e.Attachments = append(e.Attachments, channel.Attachment{
				Handle: m.ChannelID + "/" + m.ID + "/" + a.ID, Name: a.Filename, Type: a.ContentType, Size: int64(a.Size),
			})
		}
	}
	return e
}

func (x *incoming) sender(u *discordgo.User, m *discordgo.Member, guildID string) channel.Sender {
	s := channel.Sender{ID: u.ID, Name: u.Username, Bot: u.Bot, Self: x.world.is(u.ID)}
	if u.GlobalName != "" {
		s.Name = u.GlobalName
	}
	var roles []string
	if m != nil {
		if roles = m.Roles; m.Nick != "" {
			s.Name = m.Nick
		}
	}
	if guildID != "" {
		s.Roles = x.world.roleWords(guildID, u.ID, roles)
	}
	return s
}

var mentions = regexp.MustCompile(`<@!?([0-9]{1,20})>|<a?(:[A-Za-z0-9_]{1,40}:)[0-9]{1,20}>`)

// readable replaces ids by names: mentions of people, and emoji of servers. It removes the mention that addresses the bot at the beginning.
func readable(text, self string, users []*discordgo.User) (string, []channel.Entity) {
	text = strings.TrimSpace(text)
	for _, address := range []string{"<@" + self + ">", "<@!" + self + ">"} {
		if rest, ok := strings.CutPrefix(text, address); ok && self != "" {
			text = strings.TrimSpace(strings.TrimLeft(rest, ",:"))
			break
		}
	}
	var b strings.Builder
	var entities []channel.Entity
	end := 0
	for _, at := range mentions.FindAllStringSubmatchIndex(text, 1000) {
		b.WriteString(text[end:at[0]])
		end = at[1]
		if at[2] < 0 {
			b.WriteString(text[at[4]:at[5]])
			continue
		}
		id, name := text[at[2]:at[3]], ""
		if i := slices.IndexFunc(users, func(u *discordgo.User) bool { return u != nil && u.ID == id }); i >= 0 {
			name = "@" + users[i].DisplayName()
		} else {
			name = text[at[0]:at[1]]
		}
		entities = append(entities, channel.Entity{Kind: "mention", Offset: b.Len(), Length: len(name), Value: id})
		b.WriteString(name)
	}
	b.WriteString(text[end:])
	return b.String(), entities
}
