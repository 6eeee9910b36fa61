package command

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// knock has eve ask to be let in, and returns her code.
func (h *house) knock() string {
	h.t.Helper()
	m := message.Message{
		Channel: "irc", EventID: "k", Sender: message.Sender{ID: "stranger"}, Conversation: message.Conversation{ID: "stranger", Kind: message.DM},
	}
	if _, _, err := h.pairings.Offer(h.t.Context(), pairing.Stranger{Message: m}); err != nil {
		h.t.Fatal(err)
	}
	return h.pairings.List()[0].Code
}

func TestPair(t *testing.T) {
	for _, c := range []struct {
		name, who, text, want string
		kind                  message.Kind
		paired                bool
	}{
		{"an owner lets in", "ann", "/pair CODE", "Let in as guest: `irc:stranger`", message.DM, true},
		{"an owner in a group", "ann", "/pair CODE", "Let in as guest", message.Group, true},
		{"as people type it", "ann", "/Pair@flynn  code ", "Let in as guest", message.DM, true},
		{"an owner says no", "ann", "/pair deny CODE", "Not let in: `irc:stranger`", message.DM, false},
		{"an owner turns a request down", "ann", "/pair deny REQUEST", "Not let in: `irc:stranger`", message.DM, false},
		{"no such request", "ann", "/pair deny 0123456789abcdefghijklmnop", "No open request is called so", message.DM, false},
		{"a request lets nobody in", "ann", "/pair REQUEST", "Write the code", message.DM, false},
		{"a guest turns nobody down", "bob", "/pair deny REQUEST", "Only an owner can let somebody in.", message.DM, false},
		{"a wrong code", "ann", "/pair AAAA-AAAA", "No open request has this code; it may have run out.", message.DM, false},
		{"no code", "ann", "/pair", "Write the code", message.DM, false},
		{"something else", "ann", "/pair me with somebody", "Write the code", message.DM, false},
		{"a guest", "bob", "/pair CODE", "Only an owner can let somebody in.", message.DM, false},
		{"a guest with a wrong code hears the same", "bob", "/pair AAAA-AAAA", "Only an owner can let somebody in.", message.DM, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			code := h.knock()
			text := strings.NewReplacer("CODE", code[:4]+"-"+code[4:], "code", strings.ToLower(code), "REQUEST", h.pairings.List()[0].ID).Replace(c.text)
			if got := h.say("e1", c.who, text, c.kind); !strings.Contains(got, c.want) {
				t.Errorf("says %q, want %q in it", got, c.want)
			}
			role, paired := h.pairings.Role("irc:stranger")
			if paired != c.paired || paired && role != route.Guest {
				t.Errorf("the stranger is %q, %v", role, paired)
			}
		})
	}
}

func TestGuessersAreLockedOut(t *testing.T) {
	h := newHouse(t)
	code := h.knock()
	for _, who := range []string{"ann", "bob"} {
		for i := range 5 {
			h.say(who+string(rune('a'+i)), who, "/pair AAAA-AAAA", message.DM)
		}
		if got := h.say(who+"x", who, "/pair "+code, message.DM); !strings.Contains(got, "Too many wrong codes") {
			t.Errorf("%s: %q", who, got)
		}
	}
	if got := h.say("other", "eve", "/pair "+code, message.DM); !strings.Contains(got, "Let in") {
		t.Errorf("another owner: %q", got)
	}
}

// A command that waited is not carried out for somebody who is not heard any more.
func TestACommandOfWhoIsNotHeardAnyMore(t *testing.T) {
	h := newHouse(t)
	row := h.accept("e1", "mallory", "/status", message.DM)
	if rest := h.service.Work(t.Context(), "", []mailbox.InboxRow{row}); len(rest) != 0 || len(h.replied) != 0 {
		t.Errorf("%d are left, told %+v", len(rest), h.replied)
	}
	got, err := h.store.FindInbox(t.Context(), "irc", "e1")
	if err != nil || got.State != mailbox.InboxDropped || got.Note != "revoked" {
		t.Errorf("kept as %+v (%v)", got, err)
	}
}
