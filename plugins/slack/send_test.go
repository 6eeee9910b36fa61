package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/plugins/slack/slacktest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

var (
	general = channel.Conversation{ID: "C1", Kind: channel.Group}
	private = channel.Conversation{ID: "D1", Kind: channel.DM}
)

func TestSend(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	sent, err := h.Send(channel.Send{Key: "k1", Conversation: general, Text: "**bold** & <!channel>", Markdown: true})
	if err != nil || sent.Outcome != channel.OutcomeSent || len(sent.MessageIDs) != 1 {
		t.Fatalf("sent %+v: %v", sent, err)
	}
	m := s.Messages("C1")[0]
	if messageID("C1", m.TS) != sent.MessageIDs[0] || !strings.HasPrefix(m.Text, "*bold* &amp; ") || strings.Contains(m.Text, "<!") || m.Plain || !m.NoUnfurl || m.ThreadTS != "" {
		t.Errorf("message %+v", m)
	}
	h.Send(channel.Send{Key: "k2", Conversation: threadOf("C1", m.TS), Text: "*as it is*"})
	if m2 := s.Messages("C1")[1]; m2.ThreadTS != m.TS || !m2.Plain || m2.Text != "*as it is*" {
		t.Errorf("message in the thread %+v", m2)
	}
	s.Say("C1", slacktest.Message{User: "U1", ThreadTS: m.TS, Text: "go on"})
	if e := h.Event(); e.Text != "go on" || !e.Addressed {
		t.Errorf("an answer in a thread that Flynn wrote to, own messages left out: %+v", e)
	}
}

func TestWhatBecomesOfASend(t *testing.T) {
	for _, c := range []struct {
		name  string
		to    string
		fault slacktest.Fault
		want  channel.Outcome
		after time.Duration
		says  string
		shown int // messages
	}{
		{"rate limit", "C1", slacktest.Fault{RetryAfter: 7 * time.Second}, channel.OutcomeNotSent, 7 * time.Second, "rate limit", 0},
		{"rate limit without a time", "C1", slacktest.Fault{Status: 429}, channel.OutcomeNotSent, limitPause, "", 0},
		{"limit in words", "C1", slacktest.Fault{Error: "message_limit_exceeded"}, channel.OutcomeNotSent, limitPause, "", 0},
		{"limited", "C1", slacktest.Fault{Error: "ratelimited"}, channel.OutcomeNotSent, limitPause, "", 0},
		{"no such channel", "C9", slacktest.Fault{}, channel.OutcomeRefused, 0, "channel_not_found (invite Flynn", 0},
		{"not a member", "C2", slacktest.Fault{}, channel.OutcomeRefused, 0, "not_in_channel (invite Flynn", 0},
		{"archived", "C3", slacktest.Fault{}, channel.OutcomeRefused, 0, "archived", 0},
		{"read only", "C4", slacktest.Fault{}, channel.OutcomeRefused, 0, "restricted_action (the channel's settings", 0},
		{"too long", "C1", slacktest.Fault{Error: "msg_too_long"}, channel.OutcomeRefused, 0, "msg_too_long (the text has", 0},
		{"bad blocks", "C1", slacktest.Fault{Error: "invalid_blocks"}, channel.OutcomeRefused, 0, "invalid_blocks", 0},
		{"something new", "C1", slacktest.Fault{Error: "sharing_on_mars_blocked"}, channel.OutcomeRefused, 0, "sharing_on_mars_blocked", 0},
		{"account gone", "C1", slacktest.Fault{Error: "account_inactive"}, channel.OutcomeRefused, 0, "account_inactive (the app's user", 0},
		{"revoked", "C1", slacktest.Fault{Error: "token_revoked"}, channel.OutcomeNotSent, permanentPause, "token_revoked", 0},
		{"scope", "C1", slacktest.Fault{Error: "missing_scope"}, channel.OutcomeNotSent, permanentPause, "missing_scope", 0},
		{"a proxy", "C1", slacktest.Fault{Status: 403}, channel.OutcomeNotSent, permanentPause, "403", 0},
		{"catastrophe at Slack", "C1", slacktest.Fault{Error: "fatal_error"}, channel.OutcomeUnknown, 0, "fatal_error", 0},
		{"page of an error", "C1", slacktest.Fault{Status: 502}, channel.OutcomeUnknown, 0, "502", 0},
		{"carried out, then cut", "C1", slacktest.Fault{Late: true}, channel.OutcomeUnknown, 0, "no answer", 1},
		{"carried out, answer garbled", "C1", slacktest.Fault{Garbage: true}, channel.OutcomeUnknown, 0, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := workspace(t, slacktest.Config{})
			s.AddChannel(slacktest.Channel{ID: "C2", Outside: true})
			s.AddChannel(slacktest.Channel{ID: "C3", Archived: true})
			s.AddChannel(slacktest.Channel{ID: "C4", ReadOnly: true})
			h := start(t, s, plugintest.Config{})
			if c.fault != (slacktest.Fault{}) {
				s.Fail("chat.postMessage", c.fault)
			}
			sent, err := h.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: c.to}, Text: "hello"})
			if sent.Outcome != c.want || sent.RetryAfter != c.after || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("outcome %v, again after %s: %v", sent.Outcome, sent.RetryAfter, err)
			}
			if err != nil && strings.Contains(err.Error(), slacktest.BotToken) {
				t.Errorf("the error holds the token: %v", err)
			}
			if n := len(s.Messages("C1")); n != c.shown {
				t.Errorf("%d messages, want %d", n, c.shown)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	p := known("mentions")
	p.web = newWeb(settings{APIURL: "http://127.0.0.1:1/", app: slacktest.AppToken, bot: slacktest.BotToken})
	sent, err := p.Send(t.Context(), channel.Send{Key: "k", Conversation: general, Text: "hello"})
	if sent.Outcome != channel.OutcomeNotSent || err == nil {
		t.Errorf("outcome %v: %v", sent.Outcome, err)
	}
}

func TestReconcile(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	root := s.Say("C1", slacktest.Message{User: "U1", Text: "root"})
	h.Event()
	for i := range 150 { // more than one page lies above
		if i == 20 {
			s.Fail("chat.postMessage", slacktest.Fault{Late: true})
		}
		h.Send(channel.Send{Key: fmt.Sprint("k", i), Conversation: general, Text: "text"})
	}
	s.Fail("chat.postMessage", slacktest.Fault{Late: true})
	h.Send(channel.Send{Key: "in-thread", Conversation: threadOf("C1", root), Text: "text"})
	for _, c := range []struct {
		key  string
		in   channel.Conversation
		want channel.Outcome
	}{
		{"k20", general, channel.OutcomeSent}, {"in-thread", threadOf("C1", root), channel.OutcomeSent},
		{"never", general, channel.OutcomeNotSent}, {"never", threadOf("C1", root), channel.OutcomeNotSent}, {"", general, channel.OutcomeNotSent},
	} {
		got, err := h.Reconcile(channel.Reconcile{Key: c.key, Conversation: c.in, Text: "text"})
		if err != nil || got.Outcome != c.want || (len(got.MessageIDs) == 1) != (c.want == channel.OutcomeSent) {
			t.Errorf("%q in %s: %+v, %v; want %v", c.key, c.in.ID, got, err, c.want)
		}
	}
	again, err := h.Send(channel.Send{Key: "k20", Conversation: general, Text: "text", PossibleDuplicate: true})
	if err != nil || again.Outcome != channel.OutcomeDuplicate {
		t.Errorf("sent again: %+v, %v", again, err)
	}
	s.Fail("conversations.history", slacktest.Fault{Error: "missing_scope"})
	if got, err := h.Reconcile(channel.Reconcile{Key: "k1", Conversation: general, Text: "text"}); err == nil {
		t.Errorf("Slack could not be asked, and the answer is %+v", got)
	}
	if got, _ := h.Reconcile(channel.Reconcile{Key: "files", Conversation: general}); got.Outcome != channel.OutcomeUnknown {
		t.Errorf("files without text: %+v", got)
	}
}

func TestASendThatSlackCarriesOutLateIsFound(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	p := known("mentions")
	p.web = newWeb(settings{APIURL: s.URL(), app: slacktest.AppToken, bot: slacktest.BotToken})
	p.unclear.Set("k", time.Now().Add(-settleTime+4*time.Second), 0)
	time.AfterFunc(50*time.Millisecond, func() {
		_, _, _ = p.web.client.PostMessageContext(t.Context(), "C1", append(compose("late", false, nil), keyed("k"))...)
	})
	got, err := p.Reconcile(t.Context(), channel.Reconcile{Key: "k", Conversation: general, Text: "late"})
	if err != nil || got.Outcome != channel.OutcomeSent {
		t.Errorf("%+v, %v", got, err)
	}
	p.web.http.CloseIdleConnections()
}

func TestButtons(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	buttons := []channel.Button{{Text: "Yes", Value: "approve:1", Style: channel.ButtonPrimary}, {Text: "No", Value: "deny:1", Style: channel.ButtonDanger}}
	sent, err := h.Send(channel.Send{Key: "k", Conversation: threadOf("D1", "1700000000.000001"), Text: strings.Repeat("may I? ", 900), Markdown: true, Buttons: buttons})
	if err != nil {
		t.Fatal(err)
	}
	m := s.Messages("D1")[0]
	if !strings.Contains(string(m.Blocks), `"value":"deny:1"`) || !strings.Contains(string(m.Blocks), `"style":"danger"`) || m.Text == "" {
		t.Errorf("message %+v", m)
	}
	s.Press("U1", "D1", m.TS, "approve:1")
	e := h.Event()
	if e.Kind != channel.EventButton || e.Text != "approve:1" || e.TargetID != sent.MessageIDs[0] || e.Sender.ID != "U1" || e.Conversation.ID != "D1" {
		t.Errorf("press %+v", e)
	}
	h.Ack()
	s.WaitAcked(t)
	if applied, err := h.Edit(channel.Edit{Conversation: private, MessageID: messageID("D1", m.TS), Revision: 1, Text: "approved", Final: true}); !applied || err != nil {
		t.Fatalf("applied %v: %v", applied, err)
	}
	if m := s.Messages("D1")[0]; string(m.Blocks) != "[]" || m.Text != "approved" {
		t.Errorf("after the edit: %+v", m)
	}
}

func TestEditsDeletionsReactions(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	sent, _ := h.Send(channel.Send{Key: "k", Conversation: general, Text: "one", Draft: true})
	ts := sent.MessageIDs[0]
	if applied, err := h.Edit(channel.Edit{Conversation: general, MessageID: ts, Revision: 1, Text: "_two_", Markdown: true}); !applied || err != nil {
		t.Errorf("applied %v: %v", applied, err)
	}
	s.Fail("chat.update", slacktest.Fault{RetryAfter: 3 * time.Second})
	if applied, err := h.Edit(channel.Edit{Conversation: general, MessageID: ts, Revision: 2, Text: "three"}); applied || err != nil {
		t.Errorf("limited: applied %v, %v", applied, err)
	}
	if m := s.Messages("C1")[0]; m.Text != "_two_" || m.Edits != 1 {
		t.Errorf("message %+v", m)
	}
	got, err := h.Reconcile(channel.Reconcile{Key: "k", Conversation: general, Text: "one"})
	if err != nil || got.Outcome != channel.OutcomeSent {
		t.Errorf("the key is gone with the edit: %+v, %v", got, err)
	}
	for range 2 { // what is so already is no error
		if err := h.React(channel.Reaction{Conversation: general, MessageID: ts, Reaction: "👀"}); err != nil {
			t.Error(err)
		}
	}
	if m := s.Messages("C1")[0]; len(m.Reactions) != 1 || m.Reactions[0] != "eyes" {
		t.Errorf("reactions %q", m.Reactions)
	}
	for range 2 {
		if err := h.React(channel.Reaction{Conversation: general, MessageID: ts, Reaction: "👀", Remove: true}); err != nil {
			t.Error(err)
		}
	}
	if err := h.React(channel.Reaction{Conversation: general, MessageID: ts, Reaction: "🦖"}); err == nil {
		t.Error("a reaction that Slack does not have was taken")
	} else if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("it may be tried again: %v", err)
	}
	for range 2 {
		if err := h.Delete(general, ts); err != nil {
			t.Error(err)
		}
	}
	if n := len(s.Messages("C1")); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

func TestFiles(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	p := &plugin{}
	h := plugintest.Start(t, p, configured(s, plugintest.Config{}))
	h.WaitStatus(channel.StateReady)
	body := []byte(strings.Repeat("0123456789", 100_000))
	f := s.AddFile("big.bin", "application/octet-stream", body)
	if got, err := h.Fetch(f.ID); err != nil || string(got) != string(body) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	for name, handle := range map[string]string{
		"elsewhere":     s.AddFileAt("x", "image/png", "https://evil.test/x").ID,
		"look-alike":    s.AddFileAt("x", "image/png", "https://slack.com.evil.test/x").ID,
		"not encrypted": s.AddFileAt("x", "image/png", "http://files.slack.com/x").ID,
		"unknown":       "F99",
		"no id":         "../F1",
	} {
		if _, err := h.Fetch(handle); err == nil {
			t.Errorf("a file %s was fetched", name)
		}
	}
	s.Fail("download", slacktest.Fault{Status: 302})
	if _, err := h.Fetch(f.ID); err == nil || !strings.Contains(err.Error(), "files:read") {
		t.Errorf("redirected: %v", err)
	}

	handle, err := p.Upload(t.Context(), channel.Media{Name: "a.txt", Type: "text/plain", Size: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))})
	if err != nil {
		t.Fatal(err)
	}
	send := channel.Send{Key: "k", Conversation: general, Text: "see this", Attachments: []channel.Attachment{{Handle: handle, Name: "a.txt"}}}
	s.Fail("files.completeUploadExternal", slacktest.Fault{RetryAfter: 2 * time.Second})
	if sent, _ := h.Send(send); sent.Outcome != channel.OutcomeNotSent || sent.RetryAfter != 2*time.Second {
		t.Errorf("limited at the file: %+v", sent)
	}
	if sent, err := h.Send(send); sent.Outcome != channel.OutcomeSent || err != nil {
		t.Errorf("sent %+v: %v", sent, err)
	}
	list := s.Messages("C1")
	if len(list) != 2 || list[0].Text != "see this" || len(list[1].Files) != 1 || string(s.Uploaded()["a.txt"]) != string(body) {
		t.Errorf("messages %+v", list)
	}
	if _, err := p.Upload(t.Context(), channel.Media{Name: "b", Body: http.NoBody}); err == nil {
		t.Error("an empty file was taken")
	}
}

func TestTyping(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	thread := threadOf("D1", "1700000000.000001")
	for _, c := range []channel.Conversation{private, thread} {
		if err := h.Typing(channel.Typing{Conversation: c, On: true}); err != nil {
			t.Error(err)
		}
	}
	if got := s.Statuses(); len(got) != 1 || got[0] != "D1 1700000000.000001 is typing..." {
		t.Errorf("statuses %q", got)
	}
	s.Fail("assistant.threads.setStatus", slacktest.Fault{Error: "missing_scope"})
	for range 3 {
		if err := h.Typing(channel.Typing{Conversation: thread, On: true}); err != nil {
			t.Error(err)
		}
	}
	if n := s.Calls("assistant.threads.setStatus"); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestResolve(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	for i := range 450 {
		s.AddChannel(slacktest.Channel{ID: fmt.Sprintf("C5%03d", i), Name: fmt.Sprintf("room-%03d", i)})
	}
	s.AddChannel(slacktest.Channel{ID: "C7", Name: "general-talk"})
	p := known("mentions")
	p.web = newWeb(settings{APIURL: s.URL(), app: slacktest.AppToken, bot: slacktest.BotToken})
	defer p.web.http.CloseIdleConnections()
	for query, want := range map[string]string{
		"#general": "C1 #general,C7 #general-talk", "room-44": "C5440 #room-440", "<@U1>": "D1 @ann", "U1": "D1 @ann", "C7": "C7 #general-talk",
		"U99": "", "C99": "", "": "", "#nowhere": "",
	} {
		list, err := p.Resolve(t.Context(), query)
		var got []string
		for _, target := range list {
			got = append(got, target.Conversation.ID+" "+target.Title)
		}
		joined := strings.Join(got, ",")
		if err != nil || joined != want && !(strings.HasPrefix(joined, want) && query == "room-44") {
			t.Errorf("%q: %q, %v; want %q", query, joined, err, want)
		}
	}
}
