package main

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/bwmarrin/discordgo"

	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

// world caches servers and channels. It is bounded and may be incomplete.
type world struct {
	channels cache.Map[string, room] // by id

	mu     sync.Mutex
	self   string            // id of the bot's account
	app    string            // id of the application
	guilds map[string]*guild // by id
}

// guild is a server.
type guild struct {
	owner string
	roles map[string]*discordgo.Role
}

// room is a channel.
type room struct {
	kind   channel.ConversationKind
	parent string // of a thread
	guild  string
}

const (
	maxGuilds = 2500 // the most that Discord gives to one connection
	maxRooms  = 50_000
)

func newWorld() *world {
	return &world{guilds: map[string]*guild{}, channels: cache.Map[string, room]{Most: maxRooms}}
}

// is reports whether an account is the bot's own.
func (w *world) is(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return id != "" && id == w.self
}

func (w *world) ready(self, app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.self, w.app = self, app
}

func (w *world) ids() (self, app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.self, w.app
}

// setGuild records a server with its roles.
func (w *world) setGuild(g *discordgo.Guild) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.guilds[g.ID]; !known && len(w.guilds) >= maxGuilds {
		return
	}
	roles := map[string]*discordgo.Role{}
	for _, r := range g.Roles {
		if r != nil {
			roles[r.ID] = r
		}
	}
	w.guilds[g.ID] = &guild{g.OwnerID, roles}
}

func (w *world) dropGuild(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.guilds, id)
}

func (w *world) setRole(guildID string, r *discordgo.Role) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.guilds[guildID]; g != nil && r != nil && len(g.roles) < 1000 {
		g.roles[r.ID] = r
	}
}

func (w *world) dropRole(guildID, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.guilds[guildID]; g != nil {
		delete(g.roles, id)
	}
}

// setChannel records a channel or thread.
func (w *world) setChannel(c *discordgo.Channel, guildID string) room {
	r := room{kind: channel.Group, guild: guildID}
	if c.GuildID != "" {
		r.guild = c.GuildID
	}
	switch c.Type {
	case discordgo.ChannelTypeDM:
		r.kind = channel.DM
	case discordgo.ChannelTypeGuildPublicThread, discordgo.ChannelTypeGuildPrivateThread, discordgo.ChannelTypeGuildNewsThread:
		r.kind, r.parent = channel.Thread, c.ParentID
	}
	w.channels.Set(c.ID, r, 0)
	return r
}

// roleWords returns a member's roles in a server, the most powerful first. "owner" always means the actual owner, whatever roles are named.
func (w *world) roleWords(guildID, userID string, ids []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.guilds[guildID]
	if g == nil {
		return nil
	}
	var has []*discordgo.Role
	for _, id := range ids[:min(len(ids), 250)] {
		if r := g.roles[id]; r != nil && !strings.EqualFold(strings.TrimSpace(r.Name), "owner") {
			has = append(has, r)
		}
	}
	slices.SortStableFunc(has, func(a, b *discordgo.Role) int { return b.Position - a.Position })
	var words []string
	if g.owner == userID && userID != "" {
		words = append(words, "owner")
	}
	for _, r := range has {
		words = append(words, r.Name)
	}
	return words[:min(len(words), 16)]
}

// whereIs returns the room of a channel, and asks Discord for an unknown one. A channel without a server is a private chat.
func (p *plugin) whereIs(ctx context.Context, channelID, guildID string) room {
	if r, ok := p.world.channels.Get(channelID); ok {
		return r
	}
	if guildID == "" {
		return room{kind: channel.DM}
	}
	p.askGuild(ctx, guildID)
	var c discordgo.Channel
	if err := p.client.patient(ctx, "GET", "/channels/"+channelID, nil, &c); err == nil && c.ID == channelID {
		return p.world.setChannel(&c, guildID)
	}
	return room{kind: channel.Group, guild: guildID}
}

// askGuild requests a server for which no GUILD_CREATE has arrived, for example after a restart that resumes a session.
func (p *plugin) askGuild(ctx context.Context, id string) {
	p.world.mu.Lock()
	_, known := p.world.guilds[id]
	p.world.mu.Unlock()
	if known || !isSnowflake(id) {
		return
	}
	var g discordgo.Guild
	if err := p.client.patient(ctx, "GET", "/guilds/"+id, nil, &g); err != nil || g.ID != id {
		p.log.Warn("cannot read the roles of a server", "server", id, "error", err)
		return
	}
	p.world.setGuild(&g)
}
