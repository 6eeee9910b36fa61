package main

import (
	"log/slog"
	"testing"

	"github.com/flynnhost/flynn/sdk/channel"
)

// TestANickIsNobodyUnlessWrittenOut reads lines with the settings that nobody has changed, and with those of an operator who trusts nicks.
func TestANickIsNobodyUnlessWrittenOut(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]any
		accounts bool // the network marks accounts
		line     string
		want     string
	}{
		"logged in":                            {nil, true, "@account=ann :Nick!a@h PRIVMSG flynn :hi", "ann"},
		"a free nick":                          {nil, true, ":ann!a@h PRIVMSG flynn :hi", "?ann"},
		"a nick like a mark":                   {nil, true, ":[?ann!a@h PRIVMSG flynn :hi", "?{?ann"},
		"logged out in so many words":          {nil, true, "@account=* :ann!a@h PRIVMSG flynn :hi", "?ann"},
		"a tag that the network has not given": {nil, false, "@account=ann :eve!a@h PRIVMSG flynn :hi", "?eve"},
		"a client's own tag":                   {nil, true, "@+account=ann :eve!a@h PRIVMSG flynn :hi", "?eve"},
		"nicks are trusted":                    {map[string]any{"identity": "nick"}, true, "@account=ann :Eve!a@h PRIVMSG flynn :hi", "eve"},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]any{"address": "irc.example.org:6697"}
			for key, value := range c.settings {
				given[key] = value
			}
			s, err := newSettings(config(given))
			if err != nil {
				t.Fatal(err)
			}
			p := &plugin{settings: s, log: slog.New(slog.DiscardHandler)}
			l, in := &link{nick: "flynn", id: "x", members: newMembers(), accounts: c.accounts}, &listener{}
			m, err := parseLine(c.line)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.handle(t.Context(), l, m, in); err != nil || len(in.events) != 1 {
				t.Fatalf("%d events, %v", len(in.events), err)
			}
			if got := in.events[0].Sender.ID; got != c.want {
				t.Errorf("the sender is %q, want %q", got, c.want)
			}
		})
	}
}

// TestWhatIRCProves: the word of the plugin and the settings that weaken it.
func TestWhatIRCProves(t *testing.T) {
	if got := (&plugin{}).Describe().Capabilities.Senders; got != channel.SendersProved {
		t.Errorf("senders are %v", got)
	}
}
