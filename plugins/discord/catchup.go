package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/bwmarrin/discordgo"

	"github.com/flynnhost/flynn/sdk/channel"
)

// pageSize is the most messages that Discord gives at once.
const pageSize = 100

// ready begins a new session, so messages since the previous one have to be fetched. GUILD_CREATE events follow one by one, with the latest
// message of each channel; there are none for private chats.
func (x *incoming) ready(r *discordgo.Ready) error {
	if r.User == nil || r.User.ID == "" {
		return errors.New("the READY of discord names no account")
	}
	app := r.User.ID
	if r.Application != nil && isSnowflake(r.Application.ID) {
		app = r.Application.ID
	}
	x.world.ready(r.User.ID, app)
	x.gateway.session.Self, x.gateway.session.App = r.User.ID, app
	x.position.begin(x.gateway.session)
	x.online(x.in)
	newest, private := x.position.newest()
	x.since, x.absent = newest, map[string]bool{}
	for _, g := range r.Guilds {
		if g != nil {
			x.absent[g.ID] = true
		}
	}
	x.register()
	for _, id := range private {
		last, _ := x.position.place(id)
		if err := x.catchUp(id, "", last); err != nil {
			return err
		}
	}
	return nil
}

// guildCreate handles a server. Missed messages of its channels are fetched, unless this is the first session ever or the bot has just
// joined the server.
func (x *incoming) guildCreate(g *discordgo.Guild) error {
	x.world.setGuild(g)
	known := x.absent == nil || x.absent[g.ID]
	for _, c := range slices.Concat(g.Channels, g.Threads) {
		if c == nil || !isSnowflake(c.ID) {
			continue
		}
		x.world.setChannel(c, g.ID)
		if !isSnowflake(c.LastMessageID) {
			continue
		}
		last, seen := x.position.place(c.ID)
		switch {
		case !seen && (!known || x.since == ""):
			x.position.start(c.ID, c.LastMessageID)
			continue
		case !seen:
			last = x.since
		}
		if later(c.LastMessageID, last) {
			if err := x.catchUp(c.ID, g.ID, last); err != nil {
				return err
			}
		}
	}
	delete(x.absent, g.ID)
	return nil
}

// catchUp delivers the messages of a channel after a given one, oldest first.
func (x *incoming) catchUp(channelID, guildID, after string) error {
	for left := x.settings.CatchUp; left > 0; {
		var page []json.RawMessage
		path := fmt.Sprintf("/channels/%s/messages?limit=%d&after=%s", channelID, min(left, pageSize), after)
		err := x.client.patient(x.ctx, "GET", path, nil, &page)
		if refused, ok := errors.AsType[*refusedError](err); ok && refused.status != http.StatusUnauthorized && refused.status < 500 {
			x.log.Warn("cannot catch up on a channel", "channel", channelID, "error", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("catch up channel %s: %w", channelID, err)
		}
		slices.Reverse(page) // Discord gives the newest first
		for _, raw := range page {
			var m discordgo.Message
			if err := json.Unmarshal(raw, &m); err != nil || !later(m.ID, after) {
				continue
			}
			after, m.GuildID = m.ID, guildID
			fetched := &incoming{plugin: x.plugin, in: x.in, ctx: x.ctx, session: x.session, raw: raw}
			if err := fetched.message(&m); err != nil {
				return err
			}
		}
		if left -= len(page); len(page) < pageSize {
			return nil
		}
	}
	x.log.Warn("the channel has more new messages than catch_up allows", "channel", channelID, "catch_up", x.settings.CatchUp)
	return nil
}

// online reports once per connection that events arrive. The host may accept no event before that.
func (p *plugin) online(in channel.Inbox) {
	if p.shown {
		return
	}
	p.shown = true
	self, _ := p.world.ids()
	in.Status(channel.StateReady, "connected as "+self)
}
