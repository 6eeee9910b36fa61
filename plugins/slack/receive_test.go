package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/slack/slacktest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestWhatPeopleDo(t *testing.T) {
	ann := channel.Sender{ID: "U1", Name: "ann", Roles: []string{"admin"}}
	var parent string // of the case that is under way
	for _, c := range []struct {
		name string
		do   func(s *slacktest.Server)
		want channel.Event // ID and SentAt are checked for being there
	}{
		{"a private message",
			func(s *slacktest.Server) { s.Say("D1", slacktest.Message{User: "U1", Text: "a &amp; b"}) },
			channel.Event{Conversation: channel.Conversation{ID: "D1", Kind: channel.DM}, Sender: ann, Text: "a & b", Addressed: true}},
		{"a message in a channel",
			func(s *slacktest.Server) { s.Say("C1", slacktest.Message{User: "U1", Text: "morning"}) },
			channel.Event{Conversation: channel.Conversation{ID: "C1"}, Sender: ann, Text: "morning"}},
		{"a message of another workspace: its rank is none here",
			func(s *slacktest.Server) { s.Say("C1", slacktest.Message{User: "U2", Team: "T2", Text: "hi"}) },
			channel.Event{Conversation: channel.Conversation{ID: "C1"}, Sender: channel.Sender{ID: "T2/U2", Name: "bob"}, Text: "hi"}},
		{"a message of a bot",
			func(s *slacktest.Server) { s.Say("C1", slacktest.Message{User: "U3", BotID: "B3", Text: "beep"}) },
			channel.Event{Conversation: channel.Conversation{ID: "C1"}, Sender: channel.Sender{ID: "U3", Name: "robot", Bot: true}, Text: "beep"}},
		{"a message of an integration",
			func(s *slacktest.Server) {
				s.Say("C1", slacktest.Message{BotID: "B9", Subtype: "bot_message", Text: "alert"})
			},
			channel.Event{Conversation: channel.Conversation{ID: "C1"}, Sender: channel.Sender{ID: "B9", Bot: true}, Text: "alert"}},
		{"a reply in a thread",
			func(s *slacktest.Server) {
				parent = s.Say("C1", slacktest.Message{User: slacktest.BotUser, BotID: slacktest.BotID, Text: "root"})
				s.Say("C1", slacktest.Message{User: "U1", ThreadTS: parent, Text: "and then?"})
			},
			channel.Event{Conversation: channel.Conversation{ID: "C1:PARENT", Kind: channel.Thread, Parent: "C1"}, Sender: ann, Text: "and then?", ReplyTo: "C1:PARENT"}},
		{"a file",
			func(s *slacktest.Server) {
				s.Say("D1", slacktest.Message{User: "U1", Text: "look", Files: []*slacktest.File{s.AddFile("a.txt", "text/plain", []byte("abc"))}})
			},
			channel.Event{Conversation: channel.Conversation{ID: "D1", Kind: channel.DM}, Sender: ann, Text: "look", Addressed: true,
				Attachments: []channel.Attachment{{Handle: "F1", Name: "a.txt", Type: "text/plain", Size: 3}}}},
		{"a reaction",
			func(s *slacktest.Server) {
				parent = s.Say("D1", slacktest.Message{User: slacktest.BotUser, Text: "own"})
				s.React("U1", "D1", parent, "thumbsup", false) // taken away: nothing
				s.React("U1", "D1", parent, "thumbsup", true)
			},
			channel.Event{Kind: channel.EventReaction, Conversation: channel.Conversation{ID: "D1", Kind: channel.DM}, Sender: ann, Text: "👍", TargetID: "D1:PARENT"}},
		{"somebody comes",
			func(s *slacktest.Server) { s.Join("U1", "C1", true) },
			channel.Event{Kind: channel.EventMembership, Conversation: channel.Conversation{ID: "C1"}, Sender: ann, Text: "join"}},
		{"somebody goes",
			func(s *slacktest.Server) { s.Join("U1", "C1", false) },
			channel.Event{Kind: channel.EventMembership, Conversation: channel.Conversation{ID: "C1"}, Sender: ann, Text: "leave"}},
		{"a command",
			func(s *slacktest.Server) { s.Command("U1", "C1", "/flynn", "new &lt;x&gt;") },
			channel.Event{Kind: channel.EventCommand, Conversation: channel.Conversation{ID: "C1"}, Sender: ann, Text: "/flynn new <x>", Addressed: true}},
		{"what is none of Flynn's business",
			func(s *slacktest.Server) {
				s.Say("C1", slacktest.Message{User: "U1", Subtype: "channel_topic", Text: "set the topic"})
				s.Emit("events_api", map[string]any{"type": "team_rename", "name": "x"})
				s.Emit("events_api", map[string]any{"type": "channel_rename", "channel": map[string]any{"id": "C1"}})
				s.Emit("events_api", map[string]any{"type": "message", "channel": "C1", "user": "U1", "ts": "soon"})
				s.Emit("interactive", map[string]any{"type": "view_submission"})
				s.Emit("hologram", map[string]any{})
				s.Say("D1", slacktest.Message{User: "U1", Text: "and this"})
			},
			channel.Event{Conversation: channel.Conversation{ID: "D1", Kind: channel.DM}, Sender: ann, Text: "and this", Addressed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := workspace(t, slacktest.Config{})
			h := start(t, s, plugintest.Config{})
			c.do(s)
			got := h.Event()
			if got.ID == "" || got.SentAt.IsZero() && got.Kind != channel.EventCommand {
				t.Errorf("event %q at %s", got.ID, got.SentAt)
			}
			same(t, got, c.want, parent)
			h.Ack()
			s.WaitAcked(t)
			if e, more := h.EventWithin(20 * time.Millisecond); more {
				t.Errorf("a further event: %+v", e)
			}
		})
	}
}

// same compares what the cases above state; PARENT stands for a ts.
func same(t *testing.T, got, want channel.Event, parent string) {
	t.Helper()
	fill := func(s string) string { return strings.ReplaceAll(s, "PARENT", parent) }
	want.Conversation.ID, want.ReplyTo, want.TargetID = fill(want.Conversation.ID), fill(want.ReplyTo), fill(want.TargetID)
	if got.Kind != want.Kind || got.Conversation != want.Conversation || got.Text != want.Text || got.Addressed != want.Addressed ||
		got.ReplyTo != want.ReplyTo || got.TargetID != want.TargetID || !slices.Equal(got.Attachments, want.Attachments) {
		t.Errorf("event\n%+v\nwant\n%+v", got, want)
	}
	if got.Sender.ID != want.Sender.ID || got.Sender.Name != want.Sender.Name || got.Sender.Bot != want.Sender.Bot || !slices.Equal(got.Sender.Roles, want.Sender.Roles) {
		t.Errorf("sender %+v, want %+v", got.Sender, want.Sender)
	}
}

func TestAMentionIsOneEventAndBeginsAThread(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	ts := s.Say("C1", slacktest.Message{User: "U1", Text: "<@" + slacktest.BotUser + "> what is the time?"})
	first, second := h.Event(), h.Event()
	if first.ID != "C1:"+ts || second.ID != first.ID {
		t.Errorf("ids %q and %q, want C1:%s twice", first.ID, second.ID, ts)
	}
	want := channel.Conversation{ID: "C1:" + ts, Kind: channel.Thread, Parent: "C1"}
	for _, e := range []channel.Event{first, second} {
		if e.Conversation != want || !e.Addressed || !e.Mentioned || e.Text != "what is the time?" {
			t.Errorf("event %+v", e)
		}
	}
	s.Say("C1", slacktest.Message{User: "U1", ThreadTS: ts, Text: "and the day?"})
	if e := h.Event(); e.Conversation != want || !e.Addressed || e.Mentioned {
		t.Errorf("what follows in the thread: %+v", e)
	}
	s.React("U1", "C1", ts, "eyes", true)
	if e := h.Event(); e.Conversation != want {
		t.Errorf("a reaction to what began the thread: %+v", e)
	}
	h.Ack()
	s.WaitAcked(t)
}

func TestMentionsCanStayInTheChannel(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{Settings: map[string]any{"threads": "never"}})
	s.Say("C1", slacktest.Message{User: "U1", Text: "hey <@" + slacktest.BotUser + ">"})
	if e := h.Event(); e.Conversation.ID != "C1" || !e.Addressed {
		t.Errorf("event %+v", e)
	}
}

func TestEditsAndDeletions(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	ts := s.Say("D1", slacktest.Message{User: "U1", Text: "one https://a.test"})
	h.Event()
	s.Unfurl("D1", ts)
	s.Edit("D1", ts, "two")
	e := h.Event()
	if e.Kind != channel.EventEdit || e.TargetID != messageID("D1", ts) || e.Text != "two" || !strings.HasPrefix(e.ID, "D1:"+ts+":edited.") || e.Sender.ID != "U1" {
		t.Errorf("edit %+v", e)
	}
	s.Edit("D1", ts, "three")
	if next := h.Event(); next.ID == e.ID || next.Text != "three" {
		t.Errorf("second edit %+v", next)
	}
	s.Erase("D1", ts)
	if e := h.Event(); e.Kind != channel.EventDelete || e.TargetID != messageID("D1", ts) || e.ID != "D1:"+ts+":deleted" || e.Sender.ID != "U1" {
		t.Errorf("deletion %+v", e)
	}
	h.Ack()
	s.WaitAcked(t)
}

func TestAnEnvelopeIsAckedWhenTheHostHasIt(t *testing.T) {
	s := workspace(t, slacktest.Config{RedeliverAfter: 50 * time.Millisecond})
	h := start(t, s, plugintest.Config{})
	s.Say("D1", slacktest.Message{User: "U1", Text: "hello"})
	first, again := h.Event(), h.Event()
	if first.ID != again.ID {
		t.Errorf("told again as %q, was %q", again.ID, first.ID)
	}
	if e := s.Events()[0]; e.Acked {
		t.Error("acked before the host had it")
	}
	h.Ack()
	s.WaitAcked(t)
}

func TestAReplacedConnectionGoesOnUntilTheNextOneIsThere(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	s.Say("D1", slacktest.Message{User: "U1", Text: "before"})
	h.Event() // not acked yet
	s.Refresh()
	s.WaitConnections(t, 2, 2)
	s.Say("D1", slacktest.Message{User: "U1", Text: "after"})
	if e := h.Event(); e.Text != "after" {
		t.Errorf("event %+v", e)
	}
	h.Ack() // also for the envelope of the old connection
	s.WaitAcked(t)
	s.CloseOld()
	s.WaitConnections(t, 1, 2)
	s.Say("D1", slacktest.Message{User: "U1", Text: "later"})
	if e := h.Event(); e.Text != "later" {
		t.Errorf("event %+v", e)
	}
	if n := s.Calls("conversations.history"); n != 0 {
		t.Errorf("the history was read %d times though nothing was missed", n)
	}
	s.Warn()
	s.WaitConnections(t, 2, 3)
}

func TestWhatWasMissedIsReadFromTheHistory(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	dir := t.TempDir()
	h := start(t, s, plugintest.Config{StateDir: dir})
	before := s.Say("D1", slacktest.Message{User: "U1", Text: "before"})
	h.Event()
	mention := s.Say("C1", slacktest.Message{User: "U1", Text: "<@" + slacktest.BotUser + "> hi"})
	h.Event()
	h.Event()
	h.Ack()
	s.WaitAcked(t)

	s.Refuse(true)
	s.Drop()
	s.WaitConnections(t, 0, 0)
	s.Hasten(10*time.Millisecond, 1)
	var want []string
	want = append(want, "D1:"+s.Say("D1", slacktest.Message{User: "U1", Text: "one"}))
	want = append(want, "D1:"+s.Say("D1", slacktest.Message{User: "U1", Text: "two"}))
	want = append(want, "C1:"+s.Say("C1", slacktest.Message{User: "U1", Text: "top"}))
	want = append(want, "C1:"+s.Say("C1", slacktest.Message{User: "U1", ThreadTS: mention, Text: "in the thread"}))
	s.Say("D1", slacktest.Message{User: slacktest.BotUser, Text: "own"})
	s.WaitLost(t)
	s.Refuse(false)
	s.WaitConnections(t, 1, 2)
	told := []string{"D1:" + before, "C1:" + mention} // may come again: the thread begins with one of them
	got := until(t, h, want, told)
	if slices.Index(got, want[0]) > slices.Index(got, want[1]) {
		t.Errorf("out of order: %q", got)
	}
	h.Ack()
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}

	missed := "D1:" + s.Say("D1", slacktest.Message{User: "U1", Text: "while it was not running"})
	s.WaitLost(t)
	again := start(t, s, plugintest.Config{StateDir: dir})
	until(t, again, []string{missed}, append(told, want...)) // what was acked at the very end may come again
}

// until reads events until each of want came, and returns them in order. Those of known may come, too; others fail the test.
func until(t *testing.T, h *plugintest.Host, want, known []string) []string {
	t.Helper()
	var got []string
	for len(got) < len(want) {
		switch id := h.Event().ID; {
		case slices.Contains(want, id) && !slices.Contains(got, id):
			got = append(got, id)
		case !slices.Contains(want, id) && !slices.Contains(known, id):
			t.Errorf("unexpected %q", id)
		}
	}
	return got
}

func TestCredentialsThatAreRefused(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := plugintest.Start(t, &plugin{}, configured(s, plugintest.Config{
		Secrets: map[string]string{"app_token": slacktest.AppToken, "bot_token": "xoxb-wrong-and-secret"},
	}))
	if text := h.WaitStatus(channel.StateAuthRequired); !strings.Contains(text, "invalid_auth") || strings.Contains(text, "secret") {
		t.Errorf("status %q", text)
	}
}

func TestSocketModeSwitchedOff(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	h := start(t, s, plugintest.Config{})
	s.Fail("auth.test", slacktest.Fault{Error: "app_disabled"}, slacktest.Fault{Error: "app_disabled"})
	s.Disable()
	h.WaitStatus(channel.StateAuthRequired)
}

func TestAPlatformThatIsDown(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	s.Fail("auth.test", slacktest.Fault{Status: 503})
	s.Fail("apps.connections.open", slacktest.Fault{Error: "internal_error"})
	start(t, s, plugintest.Config{})
	if s.Calls("auth.test") != 3 || s.Calls("apps.connections.open") != 2 {
		t.Errorf("asked who it is %d times, for a connection %d times", s.Calls("auth.test"), s.Calls("apps.connections.open"))
	}
}

func TestRateLimitOfConnections(t *testing.T) {
	s := workspace(t, slacktest.Config{})
	s.Fail("apps.connections.open", slacktest.Fault{RetryAfter: time.Second})
	began := time.Now()
	h := plugintest.Start(t, &plugin{}, configured(s, plugintest.Config{}))
	h.WaitStatus(channel.StateRateLimited)
	h.WaitStatus(channel.StateReady)
	if waited := time.Since(began); waited < 900*time.Millisecond {
		t.Errorf("asked again after %s", waited)
	}
}

// refusing is an inbox that answers every event with an error, by DeliverAsync itself or later.
type refusing struct {
	channel.Inbox
	now, later error
}

func (r refusing) DeliverAsync(_ context.Context, _ channel.Event, done func(error)) error {
	if r.now == nil {
		done(r.later)
	}
	return r.now
}

// TestARefusedEventIsAcked: Slack would say it again for nothing, and what was not taken for another reason has to come again.
func TestARefusedEventIsAcked(t *testing.T) {
	refused := fmt.Errorf("%w: sender.id is empty", channel.ErrMalformed)
	for _, c := range []struct {
		in   refusing
		want int
	}{
		{refusing{}, 1}, {refusing{later: refused}, 1}, {refusing{later: errors.New("ending")}, 0}, {refusing{now: errors.New("ending")}, 0},
	} {
		p, acked := &plugin{log: slog.New(slog.DiscardHandler), places: newPlaces()}, 0
		p.hand(t.Context(), c.in, happening{event: channel.Event{ID: "e", Conversation: channel.Conversation{ID: "C1"}}}, func() { acked++ })
		if acked != c.want {
			t.Errorf("%+v: acked %d times, want %d", c.in, acked, c.want)
		}
	}
}
