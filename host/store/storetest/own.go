package storetest

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

func ownIsFound(t *testing.T, open Opener) {
	s := open()
	answer := func(id, channel, conversation string, kind message.Kind, sender message.SenderKey, session message.SessionKey, after time.Duration) {
		t.Helper()
		check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: turnlog.Turn{
			ID: id, Session: session, Agent: "main", Channel: channel, Conversation: message.Conversation{ID: conversation, Kind: kind}, Sender: sender,
			State: turnlog.TurnDone, Started: noon.Add(after), Ended: noon.Add(after + time.Second),
		}}))
	}
	answer("t1", "irc", "ann", message.DM, "irc:ann", "irc/dm:ann:main", 0)
	answer("t2", "irc", "ann", message.DM, "irc:ann", "irc/dm:ann:main", time.Minute)
	answer("t3", "console", "irc:ann~x", message.DM, "irc:ann", "console:irc:ann~x:main", 2*time.Minute)
	answer("t4", "irc", "#group", message.Group, "irc:ann", "irc:#group:main", 3*time.Minute)
	answer("t5", "irc", "#group", message.Group, "irc:bob", "irc:#group:main", 4*time.Minute)
	answer("t6", "irc", "nick", message.DM, "irc:ann", "irc/dm:a:main", 5*time.Minute) // a name that changed hands
	answer("t7", "irc", "nick", message.DM, "irc:bob", "irc/dm:b:main", 6*time.Minute)
	answer("t8", "schedule", "daily", message.DM, "irc:ann", "schedule:daily:main", 7*time.Minute)
	answer("t9", "irc", "waits", message.DM, "irc:ann", "irc/dm:ann:main", 8*time.Minute)
	waits := msg("w")
	waits.Conversation, waits.Sender.ID = message.Conversation{ID: "waits", Kind: message.DM}, "bob"
	_, _, err := s.AppendInbox(t.Context(), waits, mailbox.InboxNew, "")
	check(t, err)
	s = open()
	ann := []turnlog.Conversation{
		{Channel: "irc", ID: "waits", Agent: "main", Turns: 1, Last: noon.Add(8*time.Minute + time.Second)},
		{Channel: "console", ID: "irc:ann~x", Agent: "main", Turns: 1, Last: noon.Add(2*time.Minute + time.Second)},
		{Channel: "irc", ID: "ann", Agent: "main", Turns: 2, Last: noon.Add(time.Minute + time.Second)},
	}
	equal(t, "conversations", must[[]turnlog.Conversation](t)(s.ConversationsOf(t.Context(), "irc:ann", 10)), ann)
	equal(t, "the latest conversation", must[[]turnlog.Conversation](t)(s.ConversationsOf(t.Context(), "irc:ann", 1)), ann[:1])
	equal(t, "conversations of bob", must[[]turnlog.Conversation](t)(s.ConversationsOf(t.Context(), "irc:bob", 10)), []turnlog.Conversation(nil))
	for _, c := range []struct {
		sender message.SenderKey
		in     message.ConversationKey
		want   bool
	}{
		{"irc:ann", "irc:ann", true}, {"irc:ann", "console:irc:ann~x", true}, {"irc:bob", "irc:ann", false}, {"irc:bob", "console:irc:ann~x", false},
		{"irc:ann", "irc:#group", false}, {"irc:bob", "irc:#group", false}, {"irc:ann", "irc:nick", false}, {"irc:bob", "irc:nick", false},
		{"irc:ann", "irc:none", false}, {"irc:ann", "irc:%", false}, {"", "irc:ann", false}, {"irc:ann", "irc", false}, {"irc:ann", "irc:waits", false},
	} {
		if got := must[bool](t)(s.BelongsTo(t.Context(), c.sender, c.in)); got != c.want {
			t.Errorf("%s belongs to %s: %v", c.in, c.sender, got)
		}
	}
	equal(t, "sessions", must[[]message.SessionKey](t)(s.SessionsOf(t.Context(), "irc:ann")),
		[]message.SessionKey{"console:irc:ann~x:main", "irc/dm:a:main", "irc/dm:ann:main", "schedule:daily:main"})
	equal(t, "sessions of both as one", must[[]message.SessionKey](t)(s.SessionsOf(t.Context(), "irc:bob", "irc:ann")),
		[]message.SessionKey{"console:irc:ann~x:main", "irc/dm:a:main", "irc/dm:ann:main", "irc/dm:b:main", "irc:#group:main", "schedule:daily:main"})
	equal(t, "sessions of nobody", must[[]message.SessionKey](t)(s.SessionsOf(t.Context())), []message.SessionKey(nil))
	equal(t, "sessions of bob", must[[]message.SessionKey](t)(s.SessionsOf(t.Context(), "irc:bob")), []message.SessionKey{"irc/dm:b:main"})
}
