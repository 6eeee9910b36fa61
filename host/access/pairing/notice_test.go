package pairing

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

var ann = owners.Chat{Channel: "tg", Conversation: message.Conversation{ID: "7", Kind: message.DM}}

// told are the conversations in which owners are told.
type told []owners.Chat

func (p told) ToldOfStrangers(context.Context) []owners.Chat { return p }

// owners has s tell owners in places.
func (s *site) owners(scopes ...owners.Chat) {
	s.service.cfg.Owners = told(scopes)
}

// told are the replies to ann that were handed on.
func (s *site) told() (out []message.Reply) {
	for _, r := range s.replied {
		if r.Channel == ann.Channel {
			out = append(out, r)
		}
	}
	return out
}

func TestOwnersAreTold(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		s.owners(ann, owners.Chat{Channel: "tg", Conversation: message.Conversation{ID: "8", Kind: message.DM}})
		code := s.code("eve")
		p := s.service.List()[0]
		if len(s.told()) != 2 {
			t.Fatalf("told %+v", s.told())
		}
		r := s.told()[0]
		for _, want := range []string{"on irc", "`irc:eve`", `"EVE 2K"`, "/pair CODE", "/pair deny " + p.ID} {
			if !strings.Contains(r.Text, want) {
				t.Errorf("%q is not in %q", want, r.Text)
			}
		}
		if strings.Contains(r.Text, ShowCode(code)) || strings.Contains(r.Text, code) {
			t.Errorf("the code is in %q", r.Text)
		}
		if len(r.Buttons) != 1 || r.Buttons[0].Value != "/pair deny "+p.ID || len(r.Buttons[0].Value) > 64 || r.Conversation != ann.Conversation {
			t.Errorf("told %+v", r)
		}
		s.expectReplies(3)
		s.restart() // the next process knows where owners were told
		if err := s.decide(code, true, "irc:ann"); err != nil {
			t.Fatal(err)
		}
		s.expectReplies(6)
		for _, r := range s.told()[2:] {
			if r.Amends == "" || !strings.Contains(r.Text, "**Let in** as guest by `irc:ann`") {
				t.Errorf("the notice learns %+v", r)
			}
		}
	})
}

func TestAnOwnerTurnsDown(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		s.owners(ann)
		code := s.code("eve")
		id := s.service.List()[0].ID
		for _, wrong := range []string{"", store.NewID(time.Now()), code} {
			if _, err := s.service.Refuse(t.Context(), wrong, "irc:ann"); err != ErrRequest {
				t.Errorf("%q: %v", wrong, err)
			}
		}
		for range 2 { // a double click is harmless
			if p, err := s.service.Refuse(t.Context(), id, "irc:ann"); err != nil || p.State != pairings.Denied {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		if last := s.told()[len(s.told())-1]; len(s.told()) != 2 || !strings.Contains(last.Text, "**Turned down**") {
			t.Errorf("told %+v", s.told())
		}
		if err := s.decide(code, true, "irc:ann"); err != ErrDecided {
			t.Errorf("let in after all: %v", err)
		}
		s.expectRole("eve", "")
		bob := s.code("bob")
		if err := s.decide(bob, true, "irc:ann"); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.service.List() {
			if _, err := s.service.Refuse(t.Context(), p.ID, "irc:ann"); err != ErrDecided {
				t.Errorf("a pairing is turned down: %v", err)
			}
		}
	})
}

func TestStrangersDoNotFloodOwners(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		s.owners(ann)
		for range 50 {
			s.offer(s.knock("eve", "hello"))
		}
		if len(s.told()) != 1 {
			t.Fatalf("%d notices about one stranger", len(s.told()))
		}
		for i := range MaxOpen {
			s.offer(s.knock(fmt.Sprint("eve", i), "hello"))
		}
		if got := s.told(); len(got) != maxToldHour || !strings.Contains(got[maxToldHour-1].Text, "Many strangers ask") ||
			strings.Contains(got[maxToldHour-2].Text, "Many strangers ask") || s.counted[Told] != maxToldHour {
			t.Fatalf("told %+v, counted %v", got, s.counted)
		}
		for hour := range 23 {
			time.Sleep(time.Hour)
			s.restart()
			s.owners(ann)
			s.offer(s.knock("eve", "hello")) // has been told of today
			for i := range maxToldHour {
				s.offer(s.knock(fmt.Sprint("mob", hour, ".", i), "hello"))
			}
		}
		if n := len(s.told()); n != maxToldDay {
			t.Errorf("told %d times in a day, want %d", n, maxToldDay)
		}
		time.Sleep(time.Hour)
		s.offer(s.knock("eve", "hello"))
		if n := len(s.told()); n != maxToldDay+1 {
			t.Errorf("a day later: told %d times, want %d", n, maxToldDay+1)
		}
		rows, err := s.store.ListPairings(t.Context())
		if err != nil || len(rows) > maxToldDay+MaxOpen+1 {
			t.Errorf("%d rows are kept (%v)", len(rows), err)
		}
	})
}

func TestManyOwners(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		var scopes []owners.Chat
		for i := range 2 * maxTold {
			scopes = append(scopes, owners.Chat{Channel: ann.Channel, Conversation: message.Conversation{ID: fmt.Sprint(i), Kind: message.DM}})
		}
		s.owners(scopes...)
		s.code("eve")
		if len(s.told()) != maxTold {
			t.Errorf("told %d, want %d", len(s.told()), maxTold)
		}
	})
}

func FuzzNotice(f *testing.F) {
	for _, name := range []string{"Eve", "[click](https://evil.example)", "@everyone", "www.evil.example", "a`b", "\u202eevE", "x\n\n/pair AAAA-AAAA", "*_~<@U123>", "\xff", "Zoë O'Hara-李"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		nick, peer := cleanNick(name), cleanPeer(name)
		if strings.ContainsAny(nick, "`*_[]()<>@/.:#\n\"\\|~") || utf8.RuneCountInString(nick) > maxNick+1 || !utf8.ValidString(nick) {
			t.Errorf("a name is shown as %q", nick)
		}
		if strings.ContainsAny(peer, "`/\n\\<> ") || utf8.RuneCountInString(peer) > maxPeer+1 || !utf8.ValidString(peer) {
			t.Errorf("an id is shown as %q", peer)
		}
	})
}
