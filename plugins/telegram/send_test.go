package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/channel"
)

// dm is the conversation of a chat.
func dm(c *telegramtest.Chat) channel.Conversation {
	return channel.Conversation{ID: fmt.Sprint(c.ID), Kind: channel.DM}
}

func TestMarkdown(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	for _, c := range []struct{ name, text, sent, shows string }{
		{"bold", "this is **bold**", "this is <b>bold</b>", "this is bold"},
		{"code", "```go\na < b\n```", `<pre><code class="language-go">a &lt; b</code></pre>`, "a < b"},
		{"what looks like a tag", "a <b> c & d", "a &lt;b&gt; c &amp; d", "a <b> c & d"},
		{"a mark that is not closed", "2 * 3 ** 4 _x", "2 * 3 ** 4 _x", "2 * 3 ** 4 _x"},
		{"nothing", " ", nothing, nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := len(chat.Messages())
			if _, err := h.Send(channel.Send{Conversation: dm(chat), Text: c.text, Markdown: true}); err != nil {
				t.Fatal(err)
			}
			if m := chat.Messages()[n]; strings.TrimSpace(m.Markup) != c.sent || m.Text != c.shows {
				t.Errorf("sent %q, shows %q", m.Markup, m.Text)
			}
		})
	}
}

func TestRefusedMarkupGoesOutWithoutIt(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	s.Fail("sendMessage", telegramtest.Fault{Code: 400, Description: `Bad Request: can't parse entities: Unsupported start tag "b" at byte offset 0`})
	sent, err := h.Send(channel.Send{Conversation: dm(chat), Text: "**all** of it", Markdown: true})
	if err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("%+v, %v", sent, err)
	}
	if m := chat.Messages()[0]; m.Text != "all of it" || m.Mode != "" {
		t.Errorf("shows %+v", m)
	}
	s.Fail("editMessageText", telegramtest.Fault{Code: 400, Description: "Bad Request: can't parse entities: whatever"})
	if _, err := h.Edit(channel.Edit{Conversation: dm(chat), MessageID: sent.MessageIDs[0], Revision: 1, Text: "**more** of it", Markdown: true}); err != nil {
		t.Fatal(err)
	}
	if m := chat.Messages()[0]; m.Text != "more of it" || m.Mode != "" {
		t.Errorf("shows %+v", m)
	}
}

func TestLongTextInPieces(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	text := strings.Repeat("😀 ", 2000) // 4,000 characters that Telegram counts as 6,000
	sent, err := h.Send(channel.Send{Conversation: dm(chat), Text: text, Markdown: true, Buttons: []channel.Button{{Text: "ok", Value: "ok"}}})
	if err != nil || len(sent.MessageIDs) != 2 {
		t.Fatalf("%+v, %v", sent, err)
	}
	list := chat.Messages()
	if got := strings.Count(list[0].Text+list[1].Text, "😀"); got != 2000 || list[0].Keyboard != "" || list[1].Keyboard == "" {
		t.Errorf("%d of 2000 arrived; keyboards %q, %q", got, list[0].Keyboard, list[1].Keyboard)
	}
}

func TestWhatBecomesOfASend(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   telegramtest.Fault
		outcome channel.Outcome
		wait    time.Duration
		shows   int
		words   string
	}{
		{"slow down", telegramtest.TooMany(7), channel.OutcomeNotSent, 7 * time.Second, 0, "retry_after 7"},
		{"blocked", telegramtest.Fault{Code: 403, Description: "Forbidden: bot was blocked by the user"}, channel.OutcomeRefused, 0, 0, "blocked by the user"},
		{"no chat", telegramtest.Fault{Code: 400, Description: "Bad Request: chat not found"}, channel.OutcomeRefused, 0, 0, "chat not found"},
		{"no right", telegramtest.Fault{Code: 400, Description: "Bad Request: not enough rights to send text messages to the chat"}, channel.OutcomeNotSent, time.Hour, 0, "not enough rights"},
		{"no token", telegramtest.Fault{Code: 401, Description: "Unauthorized"}, channel.OutcomeNotSent, time.Minute, 0, "nauthorized"},
		{"trouble inside", telegramtest.Fault{Code: 500, Description: "Internal Server Error"}, channel.OutcomeUnknown, 0, 0, "500"},
		{"a proxy's page", telegramtest.Fault{Code: 502, HTML: true}, channel.OutcomeUnknown, 0, 0, "502"},
		{"cut before", telegramtest.Fault{Cut: telegramtest.CutBefore}, channel.OutcomeUnknown, 0, 0, "EOF"},
		{"cut after", telegramtest.Fault{Cut: telegramtest.CutAfter}, channel.OutcomeUnknown, 0, 1, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := telegramtest.Start(t)
			h := ready(t, s)
			chat := s.Private("Ann")
			s.Fail("sendMessage", c.fault)
			sent, err := h.Send(channel.Send{Key: "k", Conversation: dm(chat), Text: "hello"})
			if sent.Outcome != c.outcome || sent.RetryAfter != c.wait || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%+v, %v", sent, err)
			}
			if err != nil && strings.Contains(err.Error(), "telegramtest_token") {
				t.Errorf("the token shows: %v", err)
			}
			if n := len(chat.Messages()); n != c.shows {
				t.Errorf("%d messages show", n)
			}
		})
	}
}

func TestNoConnectionIsNotSent(t *testing.T) {
	s := telegramtest.Start(t)
	h := start(t, s, "api_url", "http://127.0.0.1:1")
	sent, err := h.Send(channel.Send{Conversation: channel.Conversation{ID: "5"}, Text: "hello"})
	if sent.Outcome != channel.OutcomeNotSent || err == nil {
		t.Errorf("%+v, %v", sent, err)
	}
}

func TestAPauseIsForItsChatAlone(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	ann, bob := s.Private("Ann"), s.Private("Bob")
	s.Fail("sendMessage", telegramtest.TooMany(60))
	if sent, _ := h.Send(channel.Send{Conversation: dm(ann), Text: "one"}); sent.RetryAfter != time.Minute {
		t.Errorf("%+v", sent)
	}
	h.WaitStatus(channel.StateRateLimited)
	sent, _ := h.Send(channel.Send{Conversation: dm(ann), Text: "two"})
	if sent.Outcome != channel.OutcomeNotSent || sent.RetryAfter <= 50*time.Second || len(s.Calls("sendMessage")) != 1 {
		t.Errorf("a chat that has to wait: %+v", sent)
	}
	if sent, err := h.Send(channel.Send{Conversation: dm(bob), Text: "three"}); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Errorf("another chat: %+v, %v", sent, err)
	}
	h.WaitStatus(channel.StateReady)
}

func TestQuotes(t *testing.T) {
	for _, c := range []struct {
		setting   string
		dm, group bool
	}{{"groups", false, true}, {"always", true, true}, {"never", false, false}} {
		t.Run(c.setting, func(t *testing.T) {
			s := telegramtest.Start(t)
			h := ready(t, s, "quote", c.setting)
			ann, team := s.Private("Ann"), s.Group("Team")
			for chat, want := range map[*telegramtest.Chat]bool{ann: c.dm, team: c.group} {
				n := chat.Say("@Flynn_Test_Bot hello")
				e := next(h)
				if _, err := h.Send(channel.Send{Conversation: e.Conversation, ReplyTo: e.ID, Text: "hi"}); err != nil {
					t.Fatal(err)
				}
				if got := chat.Messages()[0].ReplyTo; (got == n) != want || (got == 0) == want {
					t.Errorf("in %s it answers %d", chat.Type, got)
				}
			}
		})
	}
}

func TestTheMessageAnsweredMayBeGone(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	team := s.Group("Team")
	if _, err := h.Send(channel.Send{Conversation: channel.Conversation{ID: fmt.Sprint(team.ID)}, ReplyTo: messageID(team.ID, 77), Text: "hi"}); err != nil {
		t.Error(err)
	}
}

func TestPossibleDuplicateIsMarked(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	s.Fail("sendMessage", telegramtest.Fault{Cut: telegramtest.CutAfter})
	send := channel.Send{Key: "k", Conversation: dm(chat), Text: "hello"}
	if sent, _ := h.Send(send); sent.Outcome != channel.OutcomeUnknown {
		t.Fatalf("%+v", sent)
	}
	send.PossibleDuplicate = true
	if sent, err := h.Send(send); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("%+v, %v", sent, err)
	}
	if list := chat.Messages(); list[0].Text != "hello" || list[1].Text != again+"hello" {
		t.Errorf("shows %+v", list)
	}
}

func TestASendGoesOnWhereItStopped(t *testing.T) {
	s := telegramtest.Start(t)
	dir := t.TempDir()
	h := startIn(t, s, dir)
	chat := s.Private("Ann")
	send := channel.Send{Key: "k", Conversation: dm(chat), Text: strings.Repeat("first ", 600) + "\n\n" + strings.Repeat("then ", 600)}
	s.Fail("sendMessage", telegramtest.Fault{}, telegramtest.Fault{Code: 429, Description: "Too Many Requests: retry after 3", RetryAfter: 3})
	begun, _ := h.Send(send)
	if begun.Outcome != channel.OutcomeNotSent || begun.RetryAfter != 3*time.Second || len(begun.MessageIDs) != 1 || begun.Resume == "" {
		t.Fatalf("%+v", begun)
	}
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	h = startIn(t, s, dir)
	send.Resume = begun.Resume
	sent, err := h.Send(send)
	if err != nil || len(sent.MessageIDs) != 1 {
		t.Fatalf("%+v, %v", sent, err)
	}
	if list := chat.Messages(); len(list) != 2 || strings.Contains(list[1].Text, "first") || strings.Count(list[0].Text+list[1].Text, "then") != 600 {
		t.Errorf("%d messages show", len(list))
	}
}

func TestAPartThatMayHaveBeenSentIsMarked(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	send := channel.Send{Key: "k", Conversation: dm(chat), Text: strings.Repeat("first ", 600) + "\n\n" + strings.Repeat("then ", 600)}
	s.Fail("sendMessage", telegramtest.Fault{}, telegramtest.Fault{Cut: telegramtest.CutAfter})
	if sent, _ := h.Send(send); sent.Outcome != channel.OutcomeUnknown {
		t.Fatalf("%+v", sent)
	}
	send.PossibleDuplicate = true
	if sent, err := h.Send(send); err != nil || len(sent.MessageIDs) != 1 {
		t.Fatalf("%+v, %v", sent, err)
	}
	list := chat.Messages()
	if len(list) != 3 || strings.HasPrefix(list[1].Text, again) || list[2].Text != again+list[1].Text {
		t.Errorf("%d messages show, the last one %.40q", len(list), list[len(list)-1].Text)
	}
}

func TestEdit(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	sent, err := h.Send(channel.Send{Conversation: dm(chat), Text: "be", Markdown: true, Draft: true})
	if err != nil {
		t.Fatal(err)
	}
	edit := channel.Edit{Conversation: dm(chat), MessageID: sent.MessageIDs[0], Markdown: true}
	for i, text := range []string{"before", "before **all**", "before **all**"} { // the last is not modified
		edit.Revision, edit.Text = uint64(i+1), text
		if applied, err := h.Edit(edit); !applied || err != nil {
			t.Errorf("%q: %t, %v", text, applied, err)
		}
	}
	if m := chat.Messages()[0]; m.Text != "before all" || m.Edits != 2 {
		t.Errorf("shows %+v", m)
	}
	s.Fail("editMessageText", telegramtest.TooMany(2))
	edit.Revision, edit.Text = 4, "too early"
	if applied, err := h.Edit(edit); applied || err != nil {
		t.Errorf("an edit that has to wait: %t, %v", applied, err)
	}
}

func TestLastEditOfALongAnswer(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	sent, err := h.Send(channel.Send{Conversation: dm(chat), Text: "…", Draft: true})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("😀 ", 2000)
	edit := channel.Edit{Conversation: dm(chat), MessageID: sent.MessageIDs[0], Revision: 1, Text: long, Markdown: true}
	if _, err := h.Edit(edit); err != nil || len(chat.Messages()) != 1 {
		t.Fatalf("a draft makes %d messages, %v", len(chat.Messages()), err)
	}
	edit.Revision, edit.Final = 2, true
	if _, err := h.Edit(edit); err != nil {
		t.Fatal(err)
	}
	if list := chat.Messages(); len(list) != 2 || strings.Count(list[0].Text+list[1].Text, "😀") != 2000 {
		t.Errorf("%d messages show", len(list))
	}
}

func TestEditsInGroupsArePaced(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	team := s.Group("Team")
	where := channel.Conversation{ID: fmt.Sprint(team.ID)}
	sent, err := h.Send(channel.Send{Conversation: where, Text: "…", Draft: true})
	if err != nil {
		t.Fatal(err)
	}
	var applied []bool
	for i, final := range []bool{false, false, true} {
		ok, err := h.Edit(channel.Edit{Conversation: where, MessageID: sent.MessageIDs[0], Revision: uint64(i + 1), Text: fmt.Sprint(i), Final: final})
		if err != nil {
			t.Fatal(err)
		}
		applied = append(applied, ok)
	}
	if fmt.Sprint(applied) != "[true false true]" || team.Messages()[0].Text != "2" {
		t.Errorf("applied %v, shows %q", applied, team.Messages()[0].Text)
	}
}

func TestDeleteReactAndTyping(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	n := chat.Say("hello")
	e := next(h)
	react := channel.Reaction{Conversation: e.Conversation, MessageID: e.ID, Reaction: "👀"}
	if err := h.React(react); err != nil {
		t.Fatal(err)
	}
	react.Reaction = "🦖"
	if err := h.React(react); err == nil || !strings.Contains(err.Error(), "does not have this reaction") {
		t.Errorf("a strange reaction: %v", err)
	}
	if got := s.Await("setMessageReaction", 1).Params; got["message_id"] != fmt.Sprint(n) || !strings.Contains(got["reaction"], "👀") {
		t.Errorf("got %v", got)
	}
	react.Remove = true
	if err := h.React(react); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Typing(channel.Typing{Conversation: e.Conversation, On: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Typing(channel.Typing{Conversation: e.Conversation}); err != nil || len(s.Calls("sendChatAction")) != 2 {
		t.Errorf("%d chat actions, %v", len(s.Calls("sendChatAction")), err)
	}
	sent, err := h.Send(channel.Send{Conversation: dm(chat), Text: "oops"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Delete(e.Conversation, sent.MessageIDs[0]); err != nil {
			t.Error(err)
		}
	}
	if len(chat.Messages()) != 0 {
		t.Error("it was not deleted")
	}
}

func TestMarking(t *testing.T) {
	for text, want := range map[string]string{
		"hello": "(possibly again) hello", "```go\nx\n```": "(possibly again)\n\n```go\nx\n```", "# Title": "(possibly again)\n\n# Title", "": "(possibly again)\n\n",
	} {
		if got := marking(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestEditOfAMessageThatIsGoneIsNotTriedAgain(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	_, err := h.Edit(channel.Edit{Conversation: dm(chat), MessageID: messageID(chat.ID, 77), Revision: 1, Text: "x"})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "message to edit not found") {
		t.Errorf("got %v", err)
	}
	s.Fail("editMessageText", telegramtest.Fault{Code: 502, HTML: true})
	if _, err := h.Edit(channel.Edit{Conversation: dm(chat), MessageID: messageID(chat.ID, 77), Revision: 2, Text: "x"}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestPiecesFit(t *testing.T) {
	text := strings.Repeat("Some **words** and `code` in a [link](https://example.com/a).\n\n", 300)
	words := 0
	list := pieces(text, true)
	for _, p := range list {
		if n := shown(p, true); n > maxText {
			t.Errorf("a piece shows %d", n)
		}
		words += strings.Count(p, "**words**")
	}
	if len(list) < 2 || words != 300 {
		t.Errorf("%d of 300 in %d pieces", words, len(list))
	}
}
