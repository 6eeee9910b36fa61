package discordtest

// Interaction is a command or the press of a button, and the bot's response.
type Interaction struct {
	ID, Token string
	ChannelID string
	Response  int    // type of the callback; 0 as long as there is none
	Answer    string // id of the message that answers it
	Closed    bool   // the token has expired
}

// Command makes a person use a command of the bot with one option named "text", unless text is empty.
func (s *Server) Command(channel string, u User, name, text string) string {
	data := map[string]any{"id": "1", "name": name, "type": 1}
	if text != "" {
		data["options"] = []any{map[string]any{"name": "text", "type": 3, "value": text}}
	}
	return s.interact(channel, u, 2, data, "")
}

// Press makes a person press a button.
func (s *Server) Press(channel, message string, u User, customID string) string {
	return s.interact(channel, u, 3, map[string]any{"component_type": 2, "custom_id": customID}, message)
}

func (s *Server) interact(channel string, u User, kind int, data map[string]any, message string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, i := s.channels[channel], &Interaction{ID: s.id(), Token: "interaction-" + s.id(), ChannelID: channel}
	s.interactions[i.ID] = i
	d := map[string]any{
		"id": i.ID, "application_id": s.Self.ID, "type": kind, "token": i.Token, "version": 1, "data": data,
		"channel_id": channel, "channel": c, "locale": "en-US",
	}
	if g := s.guild(c.GuildID); g != nil {
		member := g.members[u.ID]
		if member == nil {
			member = &Member{}
		}
		d["guild_id"] = g.ID
		d["member"] = map[string]any{"user": u, "roles": append([]string{}, member.Roles...), "permissions": "0", "joined_at": "2020-01-01T00:00:00Z"}
	} else {
		d["user"] = u
	}
	if m := c.message(message); m != nil {
		d["message"] = m
	}
	s.dispatch("INTERACTION_CREATE", d)
	return i.ID
}

// Interaction returns one, with the bot's answer to it.
func (s *Server) Interaction(id string) Interaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.interactions[id]
}

// Close makes the token of an interaction expire, as it does after fifteen minutes.
func (s *Server) Close(id string) {
	defer s.mu.Change()()
	s.interactions[id].Closed = true
}

// Commands returns the commands that the bot has registered for a guild, or for all.
func (s *Server) Commands(guildID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.commands[guildID])
}

func (s *Server) byToken(token string) *Interaction {
	for _, i := range s.interactions {
		if i.Token == token && !i.Closed {
			return i
		}
	}
	return nil
}
