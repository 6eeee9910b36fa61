package storetest

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

func pairingsAreKept(t *testing.T, open Opener) {
	s := open()
	eve := pairings.Pairing{
		Sender: "irc:eve", ID: "p1", Name: "Eve\x00 é", Channel: "irc", Conversation: message.Conversation{ID: "eve", Kind: message.DM},
		Code: "ABCDEFGH", State: pairings.Open, Asked: noon, Expires: noon.Add(time.Hour), Until: noon.Add(2 * time.Hour),
	}
	amy := pairings.Pairing{Sender: "irc:amy", ID: "p2", Channel: "irc", State: pairings.Paired, Role: "member", By: "web:owner", Decided: noon}
	code := message.Reply{Key: "pairing-p1/0", Channel: "irc", Conversation: eve.Conversation, Text: "your code"}
	knock := msg("knock")
	if !must[bool](t)(s.AskPairing(t.Context(), knock, "not paired", eve, "pairing-p1", []message.Reply{code})) {
		t.Fatal("a request is not fresh")
	}
	other := eve
	other.Sender, other.ID = "irc:other", "p3"
	if must[bool](t)(s.AskPairing(t.Context(), knock, "again", other, "pairing-p3", []message.Reply{{Key: "pairing-p3/0"}})) {
		t.Fatal("the same message is fresh twice")
	}
	row, there, err := s.AppendInbox(t.Context(), knock, mailbox.InboxNew, "")
	check(t, err)
	if there || row.State != mailbox.InboxDropped || row.Note != "not paired" {
		t.Fatalf("the message is kept as %+v", row)
	}
	fresh := must[[]message.Reply](t)(s.PutPairing(t.Context(), amy, "", nil))
	equal(t, "fresh replies of none", fresh, []message.Reply(nil))

	s = open()
	equal(t, "pairings", must[[]pairings.Pairing](t)(s.ListPairings(t.Context())), []pairings.Pairing{amy, eve})
	if rows := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())); len(rows) != 1 || rows[0].Reply.Key != code.Key || rows[0].Turn != "pairing-p1" {
		t.Fatalf("the outbox has %+v", rows)
	}

	eve.State, eve.Role, eve.By, eve.Decided = pairings.Paired, "guest", "irc:ann", noon.Add(time.Minute)
	welcome := message.Reply{Key: "pairing-p1/1", Channel: "irc", Conversation: eve.Conversation, Text: "welcome"}
	fresh = must[[]message.Reply](t)(s.PutPairing(t.Context(), eve, "pairing-p1", []message.Reply{code, welcome}))
	equal(t, "fresh replies, one of them there before", fresh, []message.Reply{welcome})
	check(t, s.DropPairing(t.Context(), "irc:amy"))
	check(t, s.DropPairing(t.Context(), "irc:nobody"))
	s = open()
	equal(t, "pairings", must[[]pairings.Pairing](t)(s.ListPairings(t.Context())), []pairings.Pairing{eve})
}

func guessesAreKept(t *testing.T, open Opener) {
	s := open()
	once := pairings.Guesses{Guesser: "irc:bob", Wrong: 1, Since: noon}
	locked := pairings.Guesses{Guesser: "irc:ann", Wrong: 5, Since: noon, Locked: noon.Add(time.Hour)}
	check(t, s.PutGuesses(t.Context(), once))
	check(t, s.PutGuesses(t.Context(), locked))
	once.Wrong = 2
	check(t, s.PutGuesses(t.Context(), once))
	s = open()
	equal(t, "guesses", must[[]pairings.Guesses](t)(s.ListGuesses(t.Context())), []pairings.Guesses{locked, once})
	check(t, s.DropGuesses(t.Context(), "irc:ann"))
	check(t, s.DropGuesses(t.Context(), "irc:nobody"))
	s = open()
	equal(t, "guesses", must[[]pairings.Guesses](t)(s.ListGuesses(t.Context())), []pairings.Guesses{once})
}
