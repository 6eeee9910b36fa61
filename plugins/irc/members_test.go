package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/channel"
)

// followed feeds lines of a server and returns the channels whose list was asked for.
func followed(t *testing.T, lines ...string) (*members, []string) {
	t.Helper()
	m := newMembers()
	var asked []string
	for _, text := range lines {
		l, err := parseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		if ask := m.follow(l, fold(l.nick()) == "flynn"); ask != "" {
			asked = append(asked, ask)
		}
	}
	return m, asked
}

func TestRoles(t *testing.T) {
	list := []string{":s 353 flynn = #c :@Ann +bob eve @+dan", ":s 366 flynn #c :end"}
	with := func(more ...string) []string { return append(slices.Clone(list), more...) }
	for _, c := range []struct {
		name  string
		lines []string
		nick  string
		want  string
		asks  bool
	}{
		{"nothing is known", nil, "ann", "", false},
		{"an operator", list, "ann", "op", false},
		{"a voice", list, "BOB", "voice", false},
		{"nobody special", list, "eve", "", false},
		{"both, the more powerful first", list, "dan", "op voice", false},
		{"made operator", with(":ann!a@h MODE #C +o Eve"), "eve", "op", false},
		{"no longer operator", with(":dan!d@h MODE #c -o Ann"), "ann", "", false},
		{"no longer operator, still voiced", with(":ann!a@h MODE #c -o dan"), "dan", "voice", false},
		{"several modes, some with arguments", with(":ann!a@h MODE #c +lbv-k 10 *!*@* eve key"), "eve", "voice", false},
		{"a list that is asked for", with(":ann!a@h MODE #c +b"), "ann", "op", false},
		{"a mode nobody told of: nothing is believed", with(":ann!a@h MODE #c +Zo eve ann"), "ann", "", true},
		{"a rank for nobody: nothing is believed", with(":ann!a@h MODE #c +o"), "ann", "", true},
		{"left and came back", with(":ann!a@h PART #c", ":ann!x@y JOIN #c"), "ann", "", false},
		{"somebody else under her nick", with(":ann!a@h QUIT :bye", ":eve!e@h NICK ann"), "ann", "", false},
		{"a rename takes the rank along", with(":ann!a@h NICK anna"), "anna", "op", false},
		{"a rename leaves nothing behind", with(":ann!a@h NICK anna"), "ann", "", false},
		{"kicked", with(":dan!d@h KICK #c ann :out"), "ann", "", false},
		{"we left", with(":flynn!f@h PART #c"), "ann", "", false},
		{"a new list replaces the old one", with(":s 353 flynn = #c :ann @eve", ":s 366 flynn #c :end"), "ann", "", false},
		{"a list in two pieces", []string{":s 353 flynn @ #c :@ann", ":s 353 flynn @ #c :bob", ":s 366 flynn #c :end"}, "ann", "op", false},
		{"the server has ranks of its own", []string{":s 005 flynn PREFIX=(Yqaohv)!~&@%+ :are supported", ":s 353 flynn = #c :!&eve"}, "eve", "mode-Y admin", false},
		{"and modes of its own", with(":s 005 flynn CHANMODES=beIq,k,lZ,im :are supported", ":a!b@c MODE #c +Zqv 5 *!*@* eve"), "eve", "voice", false},
		{"another channel", with(":s 353 flynn = #d :@eve"), "eve", "", false},
		{"a broken line 005", with(":s 005 flynn PREFIX=(ov)@ CHANMODES=a :are supported"), "ann", "op", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, asked := followed(t, c.lines...)
			if got := strings.Join(m.roles("#c", c.nick), " "); got != c.want || len(asked) > 0 != c.asks {
				t.Errorf("roles %q and asks %q, want %q and %v", got, asked, c.want, c.asks)
			}
		})
	}
}

func FuzzMembers(f *testing.F) {
	f.Add(":s 353 flynn = #c :@ann +bob\n:ann!a@h MODE #c +ov-l bob bob\n:bob!b@h NICK ann\n:s 005 flynn PREFIX=(ov)@+ CHANMODES=b,k,l,i")
	f.Add(":s PONG\n:ann!a@h NICK\n:s 353\n:s MODE #c\n:s 005")
	f.Fuzz(func(t *testing.T, text string) {
		m := newMembers()
		for raw := range strings.SplitSeq(text, "\n") {
			if l, err := parseLine(raw); err == nil {
				m.follow(l, fold(l.nick()) == "flynn")
			}
		}
		for c, ranked := range m.channels {
			if len(ranked) > maxRanked {
				t.Errorf("%d ranks in %s", len(ranked), c)
			}
			for nick := range ranked {
				if len(m.roles(c, nick)) > len(m.ranks) {
					t.Errorf("%s has the roles %q", nick, m.roles(c, nick))
				}
			}
		}
		if len(m.channels) > maxMemberChannels {
			t.Errorf("%d channels", len(m.channels))
		}
	})
}

func TestServerTellsRoles(t *testing.T) {
	s := newServer(t)
	ann, bob := s.person("Ann", "#flynn"), s.person("Bob", "#flynn")
	h := s.flynn(nil)
	ann.settle("#flynn")
	said := func(p *person, text string) channel.Event {
		t.Helper()
		p.say("PRIVMSG #flynn :%s", text)
		e := h.Event()
		if e.Text != text {
			t.Fatalf("event is %+v", e)
		}
		return e
	}
	// Flynn has joined when it is in the list that others see; its own list follows right behind.
	if e := said(ann, "is flynn here?"); !slices.Equal(e.Sender.Roles, []string{"op"}) || !e.Mentioned || !e.Addressed {
		t.Errorf("event of the operator: %+v", e)
	}
	if e := said(bob, "me"); len(e.Sender.Roles) != 0 || e.Mentioned {
		t.Errorf("event of somebody: %+v", e)
	}
	ann.say("MODE #flynn +v Bob")
	bob.await("MODE")
	if e := said(bob, "now"); !slices.Equal(e.Sender.Roles, []string{"voice"}) {
		t.Errorf("event of somebody with a voice: %+v", e)
	}
	ann.say("MODE #flynn -v Bob")
	bob.await("MODE", "-v")
	if e := said(bob, "no longer"); len(e.Sender.Roles) != 0 {
		t.Errorf("event of somebody without it: %+v", e)
	}
	bob.say("PRIVMSG flynn :are you flynn?")
	if e := h.Event(); !e.Mentioned || len(e.Sender.Roles) != 0 {
		t.Errorf("private event: %+v", e)
	}
}
