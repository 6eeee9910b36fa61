package route

import (
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

func TestScope(t *testing.T) {
	links := map[string][]string{"ann": {"irc:ann", "slack:U1", "pager:ann"}}
	proofs := func(channel string) message.SenderProof {
		if channel == "pager" {
			return message.SendersClaimed
		}
		return message.SendersProved
	}
	for name, c := range map[string]struct {
		sessions config.Sessions
		channel  string
		scope    message.Conversation
		sender   string
		want     string
	}{
		"a private chat called by its peer":    {channel: "irc", scope: message.Conversation{ID: "bob", Kind: message.DM}, sender: "bob", want: "irc/dm:bob"},
		"a private chat with an id":            {channel: "slack", scope: message.Conversation{ID: "D7", Kind: message.DM}, sender: "U2", want: "slack/dm:U2"},
		"another private chat of the peer":     {channel: "slack", scope: message.Conversation{ID: "D8", Kind: message.DM}, sender: "U2", want: "slack/dm:U2"},
		"each private chat by itself":          {config.Sessions{Private: "conversation"}, "slack", message.Conversation{ID: "D8", Kind: message.DM}, "U2", "slack/chat:D8"},
		"a group":                              {channel: "irc", scope: message.Conversation{ID: "#f", Kind: message.Group}, sender: "bob", want: "irc:#f"},
		"a thread by itself":                   {channel: "slack", scope: message.Conversation{ID: "C1/9", Kind: message.Thread, Parent: "C1"}, sender: "U2", want: "slack:C1/9"},
		"a thread with its group":              {config.Sessions{Groups: "conversation"}, "slack", message.Conversation{ID: "C1/9", Kind: message.Thread, Parent: "C1"}, "U2", "slack:C1"},
		"a thread of an unknown group":         {config.Sessions{Groups: "conversation"}, "slack", message.Conversation{ID: "C1/9", Kind: message.Thread}, "U2", "slack:C1/9"},
		"a linked private chat":                {config.Sessions{Links: links}, "slack", message.Conversation{ID: "D7", Kind: message.DM}, "U1", "@ann"},
		"the other one of the link":            {config.Sessions{Links: links}, "irc", message.Conversation{ID: "ann", Kind: message.DM}, "ann", "@ann"},
		"a linked sender in a group":           {config.Sessions{Links: links}, "irc", message.Conversation{ID: "#f", Kind: message.Group}, "ann", "irc:#f"},
		"who calls himself like a linked id":   {config.Sessions{Links: links}, "pager", message.Conversation{ID: "irc:ann", Kind: message.DM}, "irc:ann", "pager/dm:irc:ann"},
		"who calls himself like a link":        {config.Sessions{Links: links}, "irc", message.Conversation{ID: "@ann", Kind: message.DM}, "@ann", "irc/dm:@ann"},
		"a group called like a person":         {channel: "irc", scope: message.Conversation{ID: "bob", Kind: message.Group}, sender: "eve", want: "irc:bob"},
		"a group called like a private key":    {channel: "irc", scope: message.Conversation{ID: "/dm:bob", Kind: message.Group}, sender: "eve", want: "irc:/dm:bob"},
		"a peer, where each chat is by itself": {config.Sessions{Private: "conversation"}, "irc", message.Conversation{ID: "bob", Kind: message.DM}, "bob", "irc/dm:bob"},
		"a link over a claimed id":             {config.Sessions{Links: links}, "pager", message.Conversation{ID: "D1", Kind: message.DM}, "ann", "pager/dm:ann"},
		"the web page":                         {channel: "web", scope: message.Conversation{ID: "c-1", Kind: message.DM}, sender: "owner", want: "web:c-1"},
		"the endpoint for programs":            {channel: "openai", scope: message.Conversation{ID: "c-1", Kind: message.DM}, sender: "owner", want: "openai:c-1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := message.Message{Channel: c.channel, Conversation: c.scope, Sender: message.Sender{ID: c.sender, Name: "ann", Account: "ann"}}
			if got := NewScopes(c.sessions, NewRoles(config.Access{}, proofs)).Scope(m); got != c.want {
				t.Errorf("place is %q, want %q", got, c.want)
			}
		})
	}
}
