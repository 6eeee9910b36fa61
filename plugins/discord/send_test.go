package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/discord/discordtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func fault404() discordtest.Fault {
	return discordtest.Fault{Method: "POST", Path: "/nothing", Status: 404}
}

func limit(method, path string, after float64, global bool) discordtest.Fault {
	return discordtest.Fault{Method: method, Path: path, Status: http.StatusTooManyRequests, RetryAfter: after, Global: global}
}

func (s *setting) startingWith(token string) *plugintest.Host {
	s.t.Helper()
	return plugintest.Start(s.t, &plugin{pause: func(int) time.Duration { return time.Millisecond }}, plugintest.Config{
		Settings: map[string]any{"api": s.API()}, Secrets: map[string]string{"token": token}, StateDir: s.dir,
	})
}

func (s *setting) to(text string) channel.Send {
	return channel.Send{Key: text, Conversation: channel.Conversation{ID: s.room}, Text: text, Markdown: true}
}

func TestSend(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	id := s.Say(s.room, s.ann, "question")
	next(t, h)
	send := s.to("**yes**, @everyone <@&1>")
	send.ReplyTo = id
	send.Buttons = []channel.Button{{Text: "Do", Value: "do it", Style: channel.ButtonPrimary}, {Text: "Not", Value: "no", Style: channel.ButtonDanger}}
	sent, err := h.Send(send)
	if err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	m := s.Messages(s.room)[0]
	if m.ID != sent.MessageIDs[0] || m.Content != "**yes**, @\u200beveryone \\<@&1>" || m.Reference.MessageID != id {
		t.Errorf("message is %+v", m)
	}
	if len(m.Allowed.Parse) != 0 || !m.Allowed.RepliedUser {
		t.Errorf("it calls %+v", m.Allowed)
	}
	if b := m.Components[0].Components; len(b) != 2 || b[0].Style != 1 || b[1].Style != 4 || b[0].CustomID != "flynn:do it" {
		t.Errorf("buttons are %+v", m.Components)
	}
}

func TestLongTextsAreSplit(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	send := s.to(strings.Repeat("A line with_underscores that are *escaped*.\n", 120))
	send.Buttons = []channel.Button{{Text: "x", Value: "y"}}
	sent, err := h.Send(send)
	all := s.Messages(s.room)
	if err != nil || len(all) < 3 || len(sent.MessageIDs) != len(all) {
		t.Fatalf("%d messages, %+v, %v", len(all), sent, err)
	}
	lines := 0
	for i, m := range all {
		lines += strings.Count(m.Content, "A line")
		if last := i == len(all)-1; last != (len(m.Components) > 0) {
			t.Errorf("message %d has the buttons %v", i, m.Components)
		}
	}
	if lines != 120 {
		t.Errorf("%d lines have arrived", lines)
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault discordtest.Fault
		want  channel.Outcome
		after time.Duration
		posts int // after it was sent again
	}{
		{"limit of the route", limit("POST", "/messages", 1.234, false), channel.OutcomeNotSent, 1234 * time.Millisecond, 1},
		{"limit of all", limit("POST", "/messages", 0.4, true), channel.OutcomeNotSent, 400 * time.Millisecond, 1},
		{"limit of the network before it", discordtest.Fault{Method: "POST", Path: "/messages", Status: 429, Body: "<html>", Header: http.Header{"Retry-After": {"1"}}},
			channel.OutcomeNotSent, time.Second, 1},
		{"refused", discordtest.Fault{Method: "POST", Path: "/messages", Status: 403, Code: 50013}, channel.OutcomeNotSent, time.Hour, 1},
		{"not found", discordtest.Fault{Method: "POST", Path: "/messages", Status: 404, Code: 10003}, channel.OutcomeRefused, 0, 1},
		{"wrong token", discordtest.Fault{Method: "POST", Path: "/messages", Status: 401}, channel.OutcomeNotSent, 5 * time.Minute, 1},
		{"broken inside", discordtest.Fault{Method: "POST", Path: "/messages", Status: 500}, channel.OutcomeUnknown, 0, 1},
		{"cut before it was done", discordtest.Fault{Method: "POST", Path: "/messages", CutBefore: true}, channel.OutcomeUnknown, 0, 1},
		{"cut after it was done", discordtest.Fault{Method: "POST", Path: "/messages", CutAfter: true}, channel.OutcomeUnknown, 0, 1},
		{"an answer that is none", discordtest.Fault{Method: "POST", Path: "/messages", Status: 200, Body: "<html>"}, channel.OutcomeUnknown, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSetting(t)
			h := s.bot(nil)
			s.Fail(c.fault)
			sent, err := h.Send(s.to("once"))
			if sent.Outcome != c.want || sent.RetryAfter != c.after || err == nil {
				t.Errorf("outcome %+v, %v", sent, err)
			}
			again := s.to("once")
			again.PossibleDuplicate = c.want == channel.OutcomeUnknown
			if sent, err := h.Send(again); sent.Outcome != channel.OutcomeSent {
				t.Errorf("the second time: %+v, %v", sent, err)
			}
			if all := s.Messages(s.room); len(all) != c.posts {
				t.Errorf("%d messages", len(all))
			}
		})
	}
}

func TestAResendLongAfterIsMarked(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	send := s.to("# Title")
	send.PossibleDuplicate = true
	if sent, err := h.Send(send); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatal(sent, err)
	}
	if got := s.Messages(s.room)[0].Content; got != "(possibly again)\n\n# Title" {
		t.Errorf("text is %q", got)
	}
}

func TestALimitThatIsKnownIsNotTried(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", Header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset-After": {"60"}}})
	if sent, err := h.Send(s.to("one")); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatal(sent, err)
	}
	posts := func() (n int) {
		for _, request := range s.Requests() {
			if strings.HasPrefix(request, "POST ") { // others, as for the list of commands, may come at any time
				n++
			}
		}
		return n
	}
	before := posts()
	sent, _ := h.Send(s.to("two"))
	if sent.Outcome != channel.OutcomeNotSent || sent.RetryAfter < 50*time.Second || posts() != before {
		t.Errorf("outcome %+v, %q", sent, s.Requests())
	}
}

func TestNoServerMeansNotSent(t *testing.T) {
	p := &plugin{}
	c := channel.Config{
		Settings: map[string]any{"api": "http://127.0.0.1:1"}, Secrets: map[string]string{"token": "x"}, StateDir: t.TempDir(), Log: quiet(),
	}
	if err := p.Configure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	sent, err := p.Send(t.Context(), channel.Send{Key: "k", Conversation: channel.Conversation{ID: "1"}, Text: "x"})
	if sent.Outcome != channel.OutcomeNotSent || err == nil {
		t.Errorf("outcome %+v, %v", sent, err)
	}
}

func TestASendGoesOnWhereItStopped(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	send := s.to(strings.Repeat("A sentence of some length. ", 150))
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", Header: http.Header{}}) // the first goes through
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", CutAfter: true})
	begun, _ := h.Send(send)
	if begun.Outcome != channel.OutcomeUnknown {
		t.Fatalf("outcome %+v", begun)
	}
	sent, err := h.Send(send)
	sent.MessageIDs = append(begun.MessageIDs, sent.MessageIDs...)
	all := s.Messages(s.room)
	var ids []string
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	if err != nil || !slices.Equal(sent.MessageIDs, ids) {
		t.Errorf("%+v, %v: the channel has %v", sent, err, ids)
	}
}

func TestReconcile(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	ask := func(key string) channel.Sent {
		t.Helper()
		got, err := h.Reconcile(channel.Reconcile{Key: key, Conversation: channel.Conversation{ID: s.room}, Text: key})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask("never tried"); got.Outcome != channel.OutcomeUnknown {
		t.Errorf("never tried: %+v", got)
	}
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", CutBefore: true})
	_, _ = h.Send(s.to("lost"))
	if got := ask("lost"); got.Outcome != channel.OutcomeNotSent {
		t.Errorf("lost on its way: %+v", got)
	}
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", CutAfter: true})
	_, _ = h.Send(s.to("arrived"))
	if got := ask("arrived"); got.Outcome != channel.OutcomeSent || !slices.Equal(got.MessageIDs, []string{s.Messages(s.room)[0].ID}) {
		t.Errorf("answer lost: %+v", got)
	}
}

func TestEditDeleteReactType(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	sent, err := h.Send(s.to("draft"))
	if err != nil {
		t.Fatal(err)
	}
	c, id := channel.Conversation{ID: s.room}, sent.MessageIDs[0]
	if ok, err := h.Edit(channel.Edit{Conversation: c, MessageID: id, Revision: 1, Text: "a *b*", Markdown: true}); !ok || err != nil {
		t.Errorf("edit: %v, %v", ok, err)
	}
	s.Fail(limit("PATCH", id, 0.1, false))
	if ok, err := h.Edit(channel.Edit{Conversation: c, MessageID: id, Revision: 2, Text: "x"}); ok || err != nil {
		t.Errorf("edit against a limit: %v, %v", ok, err)
	}
	if got := s.Messages(s.room)[0].Content; got != "a _b_" {
		t.Errorf("text is %q", got)
	}
	long := strings.Repeat("word ", 700)
	if ok, err := h.Edit(channel.Edit{Conversation: c, MessageID: id, Revision: 3, Text: long, Final: true}); !ok || err != nil {
		t.Errorf("last edit: %v, %v", ok, err)
	}
	if all := s.Messages(s.room); len(all) != 2 || strings.Count(all[0].Content+all[1].Content, "word") != 700 {
		t.Errorf("%d messages", len(all))
	}
	if err := h.React(channel.Reaction{Conversation: c, MessageID: id, Reaction: "👍"}); err != nil || len(s.Messages(s.room)[0].Reactions) != 1 {
		t.Errorf("react: %v", err)
	}
	if err := h.Typing(channel.Typing{Conversation: c, On: true}); err != nil || s.Typing(s.room) != 1 {
		t.Errorf("typing: %v", err)
	}
	for range 2 { // the second time it is gone
		if err := h.Delete(c, id); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if len(s.Messages(s.room)) != 1 {
		t.Error("it is still there")
	}
}

func TestInteractions(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	ask := s.Command(s.room, s.bob, "ask", "what time is it")
	e := h.Event()
	if e.Kind != channel.EventMessage || e.Text != "what time is it" || !e.Addressed || e.ID != ask || !slices.Contains(e.Sender.Roles, "moderator") {
		t.Errorf("event is %+v", e)
	}
	if got := s.Interaction(ask).Response; got != 0 {
		t.Errorf("acknowledged with %d before the host had it", got)
	}
	h.Ack()
	s.Await("acknowledgement", func() bool { return s.Interaction(ask).Response == 5 })
	answer := s.to("noon")
	answer.ReplyTo = ask
	sent, err := h.Send(answer)
	if err != nil || s.Interaction(ask).Answer != sent.MessageIDs[0] {
		t.Errorf("answered by %q, sent %+v, %v", s.Interaction(ask).Answer, sent, err)
	}
	stop := s.Command(s.private, s.ann, "stop", "")
	if e := next(t, h); e.Kind != channel.EventCommand || e.Text != "/stop" || e.Conversation.Kind != channel.DM {
		t.Errorf("event is %+v", e)
	}
	s.Await("acknowledgement", func() bool { return s.Interaction(stop).Response == 5 })
	press := s.Press(s.room, sent.MessageIDs[0], s.bob, "flynn:yes")
	if e := next(t, h); e.Kind != channel.EventButton || e.Text != "yes" || e.TargetID != sent.MessageIDs[0] || e.Sender.ID != s.bob.ID {
		t.Errorf("event is %+v", e)
	}
	s.Await("acknowledgement", func() bool { return s.Interaction(press).Response == 6 })
}

func TestAnExpiredCommandIsAnsweredByAMessage(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	ask := s.Command(s.room, s.bob, "ask", "x")
	next(t, h)
	s.Await("acknowledgement", func() bool { return s.Interaction(ask).Response == 5 })
	s.Close(ask)
	answer := s.to("late")
	answer.ReplyTo = ask
	if sent, err := h.Send(answer); err != nil || len(s.Messages(s.room)) != 1 || s.Messages(s.room)[0].ID != sent.MessageIDs[0] {
		t.Errorf("%+v, %v", sent, err)
	}
}

func TestASlowHostDoesNotFailACommand(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	ask := s.Command(s.room, s.bob, "ask", "x")
	h.Event() // and no ack
	s.Await("acknowledgement", func() bool { return s.Interaction(ask).Response == 5 })
}

func TestCommandsAreRegistered(t *testing.T) {
	for name, guilds := range map[string]bool{"everywhere": false, "in a server": true} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t)
			more, where := map[string]any{}, ""
			if guilds {
				more["guilds"], where = []string{s.guild}, s.guild
			}
			s.bot(more)
			s.Await("commands", func() bool { return s.Commands(where) != "" })
			var list []struct{ Name string }
			if err := json.Unmarshal([]byte(s.Commands(where)), &list); err != nil || len(list) != 3 {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

func TestAttachments(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	data := bytes.Repeat([]byte("picture "), 100_000)
	s.Say(s.room, s.ann, "", s.File("cat.png", "image/png", data))
	e := next(t, h)
	if len(e.Attachments) != 1 || e.Attachments[0].Name != "cat.png" || e.Attachments[0].Size != int64(len(data)) {
		t.Fatalf("event is %+v", e)
	}
	s.Expire()
	if got, err := h.Fetch(e.Attachments[0].Handle); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := h.Fetch("1/2/../3"); err == nil {
		t.Error("a handle that is none was fetched")
	}
}

func TestAttachmentsLieOnlyOnTheCDN(t *testing.T) {
	s := newSetting(t)
	h := s.bot(map[string]any{"cdn": []string{"https://cdn.example.org"}})
	s.Say(s.room, s.ann, "", s.File("cat.png", "image/png", []byte("x")))
	if _, err := h.Fetch(next(t, h).Attachments[0].Handle); err == nil || !strings.Contains(err.Error(), "cdn") {
		t.Errorf("fetched: %v", err)
	}
}

func TestFilesOut(t *testing.T) {
	s := newSetting(t)
	p := &plugin{pause: func(int) time.Duration { return time.Millisecond }}
	h := plugintest.Start(t, p, plugintest.Config{
		Settings: map[string]any{"api": s.API()}, Secrets: map[string]string{"token": s.Token}, StateDir: s.dir, Permissions: []string{"media"},
	})
	h.WaitStatus(channel.StateReady)
	handle, err := p.Upload(t.Context(), channel.Media{Name: `a "b".txt`, Type: "text/plain", Size: 5, Body: body("hello")})
	if err != nil {
		t.Fatal(err)
	}
	send := s.to("look")
	send.Attachments = []channel.Attachment{{Handle: handle}}
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", CutAfter: true})
	_, _ = h.Send(send)
	if sent, err := h.Send(send); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("%+v, %v", sent, err)
	}
	all := s.Messages(s.room)
	if len(all) != 1 || len(all[0].Attachments) != 1 || all[0].Attachments[0].Filename != `a "b".txt` || string(s.Body(all[0].Attachments[0])) != "hello" {
		t.Errorf("messages are %+v", all)
	}
	send.Key, send.Attachments[0].Handle = "another", "none"
	if sent, err := h.Send(send); err == nil || sent.Outcome != channel.OutcomeNotSent {
		t.Errorf("a file that is not there: %+v, %v", sent, err)
	}
	if _, err := p.Upload(t.Context(), channel.Media{Body: body(strings.Repeat("x", maxFile+1))}); err == nil {
		t.Error("more than discord takes was kept")
	}
}
