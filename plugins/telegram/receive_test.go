package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestPrivateMessage(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	n := chat.Say("hello")
	e := next(h)
	want := channel.Conversation{ID: fmt.Sprint(chat.ID), Kind: channel.DM}
	if e.ID != fmt.Sprintf("%d:%d", chat.ID, n) || e.Conversation != want || e.Text != "hello" || !e.Addressed || e.Mentioned {
		t.Errorf("got %+v", e)
	}
	if e.Sender.ID != fmt.Sprint(chat.Ann.ID) || e.Sender.Name != "Ann" || e.Sender.Bot || time.Since(e.SentAt) > time.Minute {
		t.Errorf("sender %+v at %s", e.Sender, e.SentAt)
	}
	if !strings.Contains(string(e.RawJSON), `"update_id"`) {
		t.Errorf("raw: %s", e.RawJSON)
	}
	if got := strings.Join(s.Allowed(), " "); got != strings.Join(wanted(), " ") {
		t.Errorf("asked for %s", got)
	}
}

func TestUpdatesAreConfirmedWhenTheHostHasThem(t *testing.T) {
	s := telegramtest.Start(t)
	chat := s.Private("Ann")
	chat.Say("one")
	chat.Say("two")
	h := ready(t, s)
	one := h.Event()
	h.Ack()
	two := h.Event()
	if one.Text != "one" || two.Text != "two" {
		t.Fatalf("got %q, %q", one.Text, two.Text)
	}
	if s.Unconfirmed() != 2 || len(s.Calls("getUpdates")) != 1 {
		t.Errorf("%d updates are unconfirmed while the host has one", s.Unconfirmed())
	}
	h.Ack()
	s.AwaitConfirmed()
	if _, again := h.EventWithin(50 * time.Millisecond); again {
		t.Error("an event came again")
	}
}

func TestWhatTheHostDidNotAckComesToTheNextProcess(t *testing.T) {
	s := telegramtest.Start(t)
	s.Private("Ann").Say("hello")
	first := start(t, s)
	before := first.Event()
	if err := first.Shutdown(); err != nil {
		t.Fatal(err)
	}
	h := start(t, s)
	if after := next(h); after.ID != before.ID || s.Unconfirmed() != 1 {
		t.Errorf("%q, then %q", before.ID, after.ID)
	}
	s.AwaitConfirmed()
}

func TestIDsOfUpdatesMayBeginAnew(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	chat.Say("before")
	first := next(h)
	s.AwaitConfirmed()
	s.Await("getUpdates", 1)
	s.JumpTo(17)
	chat.Say("after")
	second := next(h)
	s.AwaitConfirmed()
	s.JumpTo(17) // the same number once more
	chat.Say("later")
	if third := next(h); third.Text != "later" || third.ID == second.ID || second.ID == first.ID {
		t.Errorf("got %q %q %q", first.ID, second.ID, third.ID)
	}
}

func TestUpdateThatCannotBeReadHoldsUpNothing(t *testing.T) {
	s := telegramtest.Start(t)
	chat := s.Private("Ann")
	s.Push("message", "not an object")
	s.Push("a_kind_to_come", map[string]any{"x": 1})
	s.Push("message", map[string]any{"message_id": 1, "chat": map[string]any{"id": 0}, "text": "from nowhere"})
	chat.Say("hello")
	h := ready(t, s)
	for {
		if e := next(h); e.Text == "hello" {
			break
		}
	}
	s.AwaitConfirmed()
}

func TestWhoIsAddressed(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	group := s.Group("Team")
	bob := s.Person("Bob")
	mine := sendIn(t, h, group, "something of mine")
	his := group.SayAs(bob, "something of Bob's", nil)
	next(h)
	me := telegramtest.Bot()
	for _, c := range []struct {
		name, text           string
		more                 telegramtest.Fields
		want                 string
		addressed, mentioned bool
	}{
		{"talk", "hello all", nil, "hello all", false, false},
		{"mention in front", "@Flynn_Test_Bot, what is new?", nil, "what is new?", true, true},
		{"mention in any case", "ask @flynn_TEST_bot about it", nil, "ask @flynn_TEST_bot about it", true, true},
		{"mention alone", "@Flynn_Test_Bot", nil, "@Flynn_Test_Bot", true, true},
		{"mention of another", "@Flynn_Test_Bot2 hello", nil, "@Flynn_Test_Bot2 hello", false, false},
		{"mention by link", "Flynn, hello", telegramtest.Fields{"entities": []telegramtest.Entity{{Type: "text_mention", Length: 5, User: &me}}}, "hello", true, true},
		{"mention of a person by link", "Bob, hello", telegramtest.Fields{"entities": []telegramtest.Entity{{Type: "text_mention", Length: 3, User: &bob}}}, "Bob, hello", false, false},
		{"reply to us", "and then?", group.ReplyTo(mine), "and then?", true, false},
		{"reply to another", "and then?", group.ReplyTo(his), "and then?", false, false},
		{"our command", "/new@flynn_test_bot please", nil, "/new please", true, true},
		{"command of another", "/new@other_bot", group.ReplyTo(mine), "/new@other_bot", false, false},
		{"command of nobody", "/new", nil, "/new", true, false},
		{"command of nobody with a mention", "/ask @Flynn_Test_Bot", nil, "/ask @Flynn_Test_Bot", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			group.SayAs(group.Ann, c.text, c.more)
			e := next(h)
			if e.Text != c.want || e.Addressed != c.addressed || e.Mentioned != c.mentioned || e.Kind != channel.EventMessage {
				t.Errorf("got %q, addressed %t, mentioned %t", e.Text, e.Addressed, e.Mentioned)
			}
			if e.Conversation.Kind != channel.Group {
				t.Errorf("conversation %+v", e.Conversation)
			}
		})
	}
}

// sendIn sends a text through the plugin and returns the number of the message.
func sendIn(t *testing.T, h *plugintest.Host, chat *telegramtest.Chat, text string) int64 {
	t.Helper()
	before := len(chat.Messages())
	if sent, err := h.Send(channel.Send{Conversation: channel.Conversation{ID: fmt.Sprint(chat.ID)}, Text: text}); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("%+v, %v", sent, err)
	}
	return chat.AwaitMessages(before + 1)[before].ID
}

func TestCommandOfNobodyWithoutPrivacyMode(t *testing.T) {
	s := telegramtest.Start(t)
	s.SetPrivacy(false)
	h := ready(t, s)
	s.Group("Team").Say("/new")
	if e := next(h); e.Addressed || e.Text != "/new" {
		t.Errorf("got %+v", e)
	}
}

func TestSenders(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	group, news := s.Supergroup("Team", false), s.Channel("News")
	stand := telegramtest.User{ID: 1087968824, IsBot: true, FirstName: "Group", Username: "GroupAnonymousBot"}
	group.SayAs(stand, "anonymous", telegramtest.Fields{"sender_chat": group.ChatInfo, "author_signature": "the boss"})
	group.SayAs(telegramtest.User{ID: 777000, FirstName: "Telegram"}, "forwarded", telegramtest.Fields{"sender_chat": news.ChatInfo})
	news.Say("posted")
	group.SayAs(telegramtest.User{ID: 99, IsBot: true, FirstName: "Other"}, "a bot", nil)
	for _, c := range []struct {
		text, id, name, roles string
		bot                   bool
	}{
		{"anonymous", fmt.Sprint(group.ID), "Team (the boss)", "administrator", false},
		{"forwarded", fmt.Sprint(news.ID), "News", "", false},
		{"posted", fmt.Sprint(news.ID), "News", "", false},
		{"a bot", "99", "Other", "", true},
	} {
		e := next(h)
		if e.Text != c.text || e.Sender.ID != c.id || e.Sender.Name != c.name || strings.Join(e.Sender.Roles, " ") != c.roles || e.Sender.Bot != c.bot {
			t.Errorf("%s: %q from %+v", c.text, e.Text, e.Sender)
		}
	}
}

func TestTopicsAreThreads(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	forum := s.Supergroup("Forum", true)
	root := forum.SayAs(forum.Ann, "", telegramtest.Fields{"forum_topic_created": map[string]any{"name": "Plans", "icon_color": 1}})
	in := telegramtest.Fields{"message_thread_id": root, "is_topic_message": true}
	for k, v := range forum.ReplyTo(root) {
		in[k] = v
	}
	forum.SayAs(forum.Ann, "in the topic", in)
	e := next(h)
	parent := fmt.Sprint(forum.ID)
	if want := (channel.Conversation{ID: fmt.Sprintf("%s/%d", parent, root), Kind: channel.Thread, Parent: parent}); e.Conversation != want || e.ReplyTo != "" {
		t.Errorf("got %+v, reply to %q", e.Conversation, e.ReplyTo)
	}
	forum.SayAs(forum.Ann, "in the general topic", telegramtest.Fields{"message_thread_id": 3}) // a thread of replies
	if got := next(h).Conversation; got != (channel.Conversation{ID: parent, Kind: channel.Group}) {
		t.Errorf("got %+v", got)
	}
	if _, err := h.Send(channel.Send{Conversation: e.Conversation, Text: "there"}); err != nil {
		t.Fatal(err)
	}
	if m := forum.AwaitMessages(1)[0]; m.Thread != root {
		t.Errorf("went to topic %d", m.Thread)
	}
}

func TestConversationSurvivesAnUpgradeToASupergroup(t *testing.T) {
	s := telegramtest.Start(t)
	dir := t.TempDir()
	h := startIn(t, s, dir)
	group := s.Group("Team")
	group.Say("before")
	before := next(h).Conversation
	now := group.Migrate()
	now.Say("after")
	if after := next(h).Conversation; after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	h = startIn(t, s, dir)
	if _, err := h.Send(channel.Send{Conversation: before, Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	if got := now.AwaitMessages(1)[0].Text; got != "hello" {
		t.Errorf("the supergroup shows %q", got)
	}
}

func TestUpgradeThatOnlyASendFindsOut(t *testing.T) {
	s := telegramtest.Start(t)
	group := s.Group("Team")
	now := group.Migrate()
	h := start(t, s)
	s.AwaitConfirmed()
	sent, err := h.Send(channel.Send{Conversation: channel.Conversation{ID: fmt.Sprint(group.ID), Kind: channel.Group}, Text: "hello"})
	if err != nil || sent.MessageIDs[0] != fmt.Sprintf("%d:2", now.ID) {
		t.Errorf("%+v, %v", sent, err)
	}
}

func TestEdits(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	n := chat.Say("helo")
	said := next(h)
	chat.Edit(n, "hello")
	chat.Edit(n, "hello!")
	one, two := next(h), next(h)
	if one.Kind != channel.EventEdit || one.TargetID != said.ID || one.Text != "hello" || two.Text != "hello!" || one.ID == two.ID || one.ID == said.ID {
		t.Errorf("got %+v and %+v", one, two)
	}
}

func TestButtons(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	sent, err := h.Send(channel.Send{
		Conversation: channel.Conversation{ID: fmt.Sprint(chat.ID), Kind: channel.DM}, Text: "Allow it?",
		Buttons: []channel.Button{{Text: "Allow", Value: "ok:1", Style: channel.ButtonPrimary}, {Text: "Deny", Value: "no:1", Style: channel.ButtonDanger}, {Text: "Allow it for as long as this lasts", Value: "ever:1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := chat.AwaitMessages(1)[0]
	for _, want := range []string{`[{"text":"Allow","style":"primary","callback_data":"ok:1"`, `"text":"Deny","style":"danger"`, `}],[{"text":"Allow it for`} {
		if !strings.Contains(m.Keyboard, want) {
			t.Errorf("keyboard %s has no %s", m.Keyboard, want)
		}
	}
	chat.Press(chat.Ann, m.ID, "ok:1")
	e := h.Event()
	if e.Kind != channel.EventButton || e.Text != "ok:1" || e.TargetID != sent.MessageIDs[0] || e.Sender.ID != fmt.Sprint(chat.Ann.ID) || e.Conversation.Kind != channel.DM {
		t.Errorf("got %+v", e)
	}
	if n := len(s.Calls("answerCallbackQuery")); n != 0 {
		t.Error("the press was answered before the host had it")
	}
	h.Ack()
	s.Await("answerCallbackQuery", 1)
	if _, err := h.Edit(channel.Edit{Conversation: e.Conversation, MessageID: e.TargetID, Revision: 1, Text: "Allowed", Final: true}); err != nil {
		t.Fatal(err)
	}
	if m := chat.Messages()[0]; m.Keyboard != "" || m.Text != "Allowed" {
		t.Errorf("after the answer: %+v", m)
	}
}

func TestReactionsAndMembers(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	group := s.Group("Team")
	n := group.Say("nice")
	said := next(h)
	group.React(group.Ann, n, []string{"👍"}, []string{"👍", "🔥"})
	if e := next(h); e.Kind != channel.EventReaction || e.Text != "🔥" || e.TargetID != said.ID || e.Sender.ID != fmt.Sprint(group.Ann.ID) {
		t.Errorf("got %+v", e)
	}
	group.React(group.Ann, n, []string{"🔥"}, nil) // means nothing to the host
	bob := s.Person("Bob")
	group.SayAs(group.Ann, "", telegramtest.Fields{"new_chat_members": []telegramtest.User{bob}})
	group.SayAs(bob, "", telegramtest.Fields{"left_chat_member": bob})
	for _, want := range []string{"join", "leave"} {
		if e := next(h); e.Kind != channel.EventMembership || e.Text != want || e.Sender.ID != fmt.Sprint(bob.ID) {
			t.Errorf("got %+v", e)
		}
	}
	s.AwaitConfirmed()
}

func TestStates(t *testing.T) {
	t.Run("unknown token", func(t *testing.T) {
		s := telegramtest.Start(t)
		s.Revoke(true)
		h := start(t, s)
		if text := h.WaitStatus(channel.StateAuthRequired); !strings.Contains(text, "@BotFather") {
			t.Errorf("says %q", text)
		}
	})
	t.Run("token taken back", func(t *testing.T) {
		s := telegramtest.Start(t)
		h := ready(t, s)
		s.Revoke(true)
		h.WaitStatus(channel.StateAuthRequired)
		s.Revoke(false)
		h.WaitStatus(channel.StateReady)
	})
	t.Run("two programs", func(t *testing.T) {
		s := telegramtest.Start(t)
		s.Fail("getUpdates", telegramtest.Fault{Code: 409, Description: "Conflict: terminated by other getUpdates request"})
		h := start(t, s)
		if text := h.WaitStatus(channel.StateDegraded); !strings.Contains(text, "another program") {
			t.Errorf("says %q", text)
		}
		h.WaitStatus(channel.StateReady)
	})
	t.Run("too many polls", func(t *testing.T) {
		s := telegramtest.Start(t)
		s.Fail("getUpdates", telegramtest.TooMany(1))
		h := start(t, s)
		h.WaitStatus(channel.StateRateLimited)
		h.WaitStatus(channel.StateReady)
	})
	t.Run("a proxy's page", func(t *testing.T) {
		s := telegramtest.Start(t)
		s.Fail("getMe", telegramtest.Fault{Code: 502, HTML: true}, telegramtest.Fault{Cut: telegramtest.CutBefore})
		h := start(t, s)
		if text := h.WaitStatus(channel.StateDegraded); strings.Contains(text, "telegramtest_token") {
			t.Errorf("says %q", text)
		}
		h.WaitStatus(channel.StateReady)
	})
	t.Run("an earlier webhook", func(t *testing.T) {
		s := telegramtest.Start(t)
		if _, err := s.Call("setWebhook", "url", "http://127.0.0.1:1/hook"); err != nil {
			t.Fatal(err)
		}
		h := start(t, s)
		s.Private("Ann").Say("hello")
		next(h)
	})
}
