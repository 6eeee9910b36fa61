package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/plugins/matrix/matrixtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

const (
	group = "!group:test"
	dm    = "!dm:test"
	ann   = "@ann:test"
)

// site is a homeserver with two rooms and a plugin that follows it.
type site struct {
	*matrixtest.Server
	host *plugintest.Host
	kept *plugintest.Services
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Server: matrixtest.New(t), kept: plugintest.NewServices()}
	s.Room(group, ann, "@bob:test")
	s.Room(dm, ann)
	s.Say(dm, ann, "said before Flynn came", nil)
	s.start(t)
	return s
}

func (s *site) start(t *testing.T) {
	t.Helper()
	s.host = plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings:    map[string]any{"homeserver": s.URL(), "user_id": matrixtest.User, "accept_invites": []string{"@ann:*"}, "sync_seconds": 5},
		Secrets:     map[string]string{"access_token": matrixtest.Token},
		Permissions: []string{"kv"}, Services: s.kept,
	})
	s.host.WaitStatus(channel.StateReady)
}

func relation(text string) map[string]any {
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(err)
	}
	return out
}

func TestEvents(t *testing.T) {
	s := newSite(t)
	uri := s.PutMedia("image/png", []byte("png"))
	for _, c := range []struct {
		name  string
		post  func() string
		check func(e channel.Event, id string) bool
	}{
		{"a private message", func() string { return s.Say(dm, ann, "hello", nil) }, func(e channel.Event, id string) bool {
			return e.ID == id && e.Text == "hello" && e.Conversation.Kind == channel.DM && e.Conversation.ID == dm && e.Addressed && e.Sender.ID == ann &&
				e.Sender.Name == "ann" && !e.SentAt.IsZero()
		}},
		{"one of a group that is for somebody else", func() string { return s.Say(group, ann, "hello bob", nil) }, func(e channel.Event, _ string) bool {
			return e.Conversation.Kind == channel.Group && !e.Addressed && !e.Mentioned
		}},
		{"a mention by list", func() string {
			return s.Post(group, ann, "m.room.message", map[string]any{"msgtype": "m.text", "body": "you there", "m.mentions": map[string]any{"user_ids": []string{matrixtest.User}}})
		}, func(e channel.Event, _ string) bool { return e.Addressed && e.Mentioned }},
		{"a mention by name", func() string { return s.Say(group, ann, "Flynn: hello", nil) }, func(e channel.Event, _ string) bool { return e.Mentioned }},
		{"an answer with a quotation", func() string {
			return s.Say(dm, ann, "> <@flynn:test> what?\n> more\n\nthis", relation(`{"m.in_reply_to":{"event_id":"$q"}}`))
		}, func(e channel.Event, _ string) bool { return e.Text == "this" && e.ReplyTo == "$q" }},
		{"a thread", func() string {
			return s.Say(group, ann, "in a thread", relation(`{"rel_type":"m.thread","event_id":"$root","is_falling_back":true,"m.in_reply_to":{"event_id":"$last"}}`))
		}, func(e channel.Event, _ string) bool {
			return e.Conversation == channel.Conversation{ID: "$root", Kind: channel.Thread, Parent: group} && e.ReplyTo == ""
		}},
		{"an edit", func() string {
			return s.Post(dm, ann, "m.room.message", map[string]any{
				"msgtype": "m.text", "body": "* new", "m.new_content": map[string]any{"msgtype": "m.text", "body": "new"},
				"m.relates_to": map[string]any{"rel_type": "m.replace", "event_id": "$old"},
			})
		}, func(e channel.Event, _ string) bool {
			return e.Kind == channel.EventEdit && e.Text == "new" && e.TargetID == "$old"
		}},
		{"a reaction", func() string {
			return s.Post(dm, ann, "m.reaction", map[string]any{"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": "$m", "key": "👍"}})
		}, func(e channel.Event, _ string) bool {
			return e.Kind == channel.EventReaction && e.Text == "👍" && e.TargetID == "$m"
		}},
		{"a removal", func() string { return s.Post(dm, ann, "m.room.redaction", map[string]any{"redacts": "$m"}) }, func(e channel.Event, _ string) bool {
			return e.Kind == channel.EventDelete && e.TargetID == "$m"
		}},
		{"an image", func() string {
			return s.Post(dm, ann, "m.room.message", map[string]any{"msgtype": "m.image", "body": "look", "filename": "a.png", "url": uri, "info": map[string]any{"mimetype": "image/png", "size": 3}})
		}, func(e channel.Event, _ string) bool {
			return e.Text == "look" && len(e.Attachments) == 1 && e.Attachments[0] == channel.Attachment{Handle: uri, Name: "a.png", Type: "image/png", Size: 3}
		}},
		{"a file without a caption", func() string {
			return s.Post(dm, ann, "m.room.message", map[string]any{"msgtype": "m.file", "body": "a.bin", "url": uri})
		}, func(e channel.Event, _ string) bool { return e.Text == "" && e.Attachments[0].Name == "a.bin" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := c.post()
			e := s.host.Event()
			s.host.Ack()
			if !c.check(e, id) {
				t.Errorf("event %+v", e)
			}
		})
	}
}

func TestNothingIsLostAndNothingComesAgain(t *testing.T) {
	s := newSite(t)
	s.Say(dm, ann, "one", nil)
	if e := s.host.Event(); e.Text != "one" {
		t.Fatalf("event %+v", e)
	}
	// It is not acked: the next process has to bring it again.
	if err := s.host.Shutdown(); err != nil {
		t.Fatal(err)
	}
	for i := range 35 { // more than one sync holds
		s.Say(dm, ann, fmt.Sprint("away ", i), nil)
	}
	s.start(t)
	want := append([]string{"one"}, func() (out []string) {
		for i := range 35 {
			out = append(out, fmt.Sprint("away ", i))
		}
		return out
	}()...)
	for _, text := range want {
		if e := s.host.Event(); e.Text != text {
			t.Fatalf("%q came, want %q", e.Text, text)
		}
		s.host.Ack()
	}
	s.Say(dm, ann, "last", nil)
	if e := s.host.Event(); e.Text != "last" {
		t.Errorf("%q came, want what is new", e.Text)
	}
}

func TestRefusalsForGood(t *testing.T) {
	s := newSite(t)
	where := channel.Conversation{ID: dm, Kind: channel.DM}
	for name, send := range map[string]channel.Send{
		"a room that Flynn is not in": {Key: "a", Conversation: channel.Conversation{ID: "!elsewhere:test", Kind: channel.Group}, Text: "hi"},
		"an event above the limit":    {Key: "b", Conversation: where, Text: strings.Repeat("x", 65_536)},
	} {
		if got, err := s.host.Send(send); got.Outcome != channel.OutcomeRefused || err == nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for code, want := range map[string]codes.Code{"M_FORBIDDEN": codes.FailedPrecondition, "M_NOT_FOUND": codes.NotFound, "M_LIMIT_EXCEEDED": codes.Unknown} {
		if err := final(fmt.Errorf("delete: %w", &apiError{Status: 403, Code: code})); status.Code(err) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
	if err := final(nil); err != nil {
		t.Error(err)
	}
}

func TestSends(t *testing.T) {
	where := channel.Conversation{ID: dm, Kind: channel.DM}
	for _, c := range []struct {
		name    string
		trouble []matrixtest.Trouble
		want    channel.Outcome
		retry   time.Duration
		arrived int
	}{
		{"sent", nil, channel.OutcomeSent, 0, 1},
		{"rate limit", []matrixtest.Trouble{{Status: 429, Code: "M_LIMIT_EXCEEDED", RetryAfter: 1500 * time.Millisecond}}, channel.OutcomeNotSent, 1500 * time.Millisecond, 0},
		{"overloaded", []matrixtest.Trouble{{Status: 503, RetryAfter: time.Second}}, channel.OutcomeNotSent, time.Second, 0},
		{"forbidden", []matrixtest.Trouble{{Status: 403, Code: "M_FORBIDDEN"}}, channel.OutcomeRefused, 0, 0},
		{"too large", []matrixtest.Trouble{{Status: 413, Code: "M_TOO_LARGE"}}, channel.OutcomeRefused, 0, 0},
		{"no such room", []matrixtest.Trouble{{Status: 404, Code: "M_NOT_FOUND"}}, channel.OutcomeRefused, 0, 0},
		{"deactivated", []matrixtest.Trouble{{Status: 403, Code: "M_USER_DEACTIVATED"}}, channel.OutcomeRefused, 0, 0},
		{"a proxy", []matrixtest.Trouble{{Status: 403}}, channel.OutcomeNotSent, 0, 0},
		{"another server", []matrixtest.Trouble{{Status: 404, Code: "M_UNRECOGNIZED"}}, channel.OutcomeNotSent, 0, 0},
		{"a full server", []matrixtest.Trouble{{Status: 403, Code: "M_RESOURCE_LIMIT_EXCEEDED"}}, channel.OutcomeNotSent, 0, 0},
		{"a token that ended", []matrixtest.Trouble{{Status: 401, Code: "M_UNKNOWN_TOKEN"}}, channel.OutcomeNotSent, 0, 0},
		{"a server that fails", []matrixtest.Trouble{{Status: 502}}, channel.OutcomeUnknown, 0, 0},
		{"cut off before", []matrixtest.Trouble{{HangUp: true}}, channel.OutcomeUnknown, 0, 0},
		{"cut off after", []matrixtest.Trouble{{HangUp: true, Done: true}}, channel.OutcomeUnknown, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.Next("/send/", c.trouble...)
			send := channel.Send{Key: "k/0", Conversation: where, ReplyTo: "$q", Text: "**hi** @room", Markdown: true}
			got, err := s.host.Send(send)
			if got.Outcome != c.want || got.RetryAfter != c.retry || (err == nil) != (c.want == channel.OutcomeSent) {
				t.Fatalf("%+v, %v", got, err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if n := len(s.Messages(ended, dm, 99)); n != c.arrived {
				t.Fatalf("%d arrived, want %d", n, c.arrived)
			}
			if got, err = s.host.Send(send); err != nil {
				t.Fatal(err)
			}
			all := s.Messages(t.Context(), dm, 1)
			if len(all) != 1 {
				t.Fatalf("%d messages, want 1", len(all))
			}
			content := all[0].Content
			if content["body"] != "hi @room" || content["formatted_body"] == nil || !strings.Contains(fmt.Sprint(content["formatted_body"]), "<strong>hi</strong>") ||
				fmt.Sprint(content["m.mentions"]) != "map[]" || fmt.Sprint(content["m.relates_to"]) != "map[m.in_reply_to:map[event_id:$q]]" {
				t.Errorf("content %v", content)
			}
			if c.arrived == 0 && got.MessageIDs[0] != all[0].ID {
				t.Errorf("ids %v", got.MessageIDs)
			}
		})
	}
}

func TestOutboundAbilities(t *testing.T) {
	s := newSite(t)
	where := channel.Conversation{ID: "$root", Kind: channel.Thread, Parent: group}
	handle, err := s.host.Upload(channel.Media{Name: "a.txt", Type: "text/plain"}, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	sent, err := s.host.Send(channel.Send{Key: "k", Conversation: where, Text: "draft", Attachments: []channel.Attachment{{Handle: handle, Name: "a.txt", Type: "text/plain", Size: 5}}})
	if err != nil || len(sent.MessageIDs) != 2 {
		t.Fatalf("%+v, %v", sent, err)
	}
	if ok, err := s.host.Edit(channel.Edit{Conversation: where, MessageID: sent.MessageIDs[0], Revision: 1, Text: "final", Final: true}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	react := channel.Reaction{Conversation: where, MessageID: "$x", Reaction: "👀"}
	if err := s.host.React(react); err != nil {
		t.Fatal(err)
	}
	react.Remove = true
	if err := s.host.React(react); err != nil {
		t.Fatal(err)
	}
	if err := s.host.Delete(where, sent.MessageIDs[1]); err != nil {
		t.Fatal(err)
	}
	all := s.Messages(t.Context(), group, 6)
	var kinds []string
	for _, e := range all {
		kinds = append(kinds, fmt.Sprint(e.Type, " ", e.Content["msgtype"], " ", e.Content["redacts"]))
	}
	want := []string{
		"m.room.message m.text <nil>", "m.room.message m.file <nil>", "m.room.message m.text <nil>", "m.reaction <nil> <nil>",
		"m.room.redaction <nil> " + all[3].ID, "m.room.redaction <nil> " + sent.MessageIDs[1],
	}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("events %q\nwant   %q", kinds, want)
	}
	if all[0].Content["m.relates_to"].(map[string]any)["event_id"] != "$root" || all[1].Content["url"] != handle ||
		all[2].Content["m.new_content"].(map[string]any)["body"] != "final" {
		t.Errorf("contents %v", all)
	}
	if body, err := s.host.Fetch(handle); err != nil || string(body) != "hello" {
		t.Errorf("fetched %q, %v", body, err)
	}
	if _, err := s.host.Fetch("mxc://test/../../x"); err == nil {
		t.Error("a handle that is a path was fetched")
	}
	for _, on := range []bool{true, false} {
		if err := s.host.Typing(channel.Typing{Conversation: where, On: on, TTL: 5 * time.Second}); err != nil || s.Typing(group) != on {
			t.Errorf("typing is %v, %v", s.Typing(group), err)
		}
	}
}

func TestInvitations(t *testing.T) {
	s := newSite(t)
	s.Invite("!evil:test", "@eve:test")
	s.Invite("!new:test", ann)
	s.Say(dm, ann, "a sign", nil)
	s.host.Event()
	s.host.Ack()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !s.Joined("!new:test") {
		if ctx.Err() != nil {
			t.Fatal("the invitation was not accepted")
		}
		n := s.Syncs()
		for s.Syncs() == n && ctx.Err() == nil && !s.Joined("!new:test") {
			time.Sleep(time.Millisecond)
		}
	}
	if s.Joined("!evil:test") {
		t.Error("a stranger's invitation was accepted")
	}
}

func TestTrouble(t *testing.T) {
	for _, c := range []struct {
		name    string
		trouble matrixtest.Trouble
		state   channel.State
	}{
		{"logged out", matrixtest.Trouble{Status: 401, Code: "M_UNKNOWN_TOKEN"}, channel.StateAuthRequired},
		{"slow down", matrixtest.Trouble{Status: 429, Code: "M_LIMIT_EXCEEDED", RetryAfter: 50 * time.Millisecond}, channel.StateRateLimited},
		{"broken", matrixtest.Trouble{Status: 502}, channel.StateDegraded},
		{"hung up", matrixtest.Trouble{HangUp: true}, channel.StateDegraded},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.Next("/account/whoami", c.trouble, c.trouble) // the first tries to come back fail as well, so that the state lasts
			s.Next("/sync", c.trouble, c.trouble)           // a GET that was hung up on is tried again below us
			s.Say(dm, ann, "one", nil)
			s.host.WaitStatus(c.state)
			s.Say(dm, ann, "two", nil)
			for _, want := range []string{"one", "two"} {
				if e := s.host.Event(); e.Text != want {
					t.Errorf("event %+v, want %q", e, want)
				}
				s.host.Ack()
			}
			s.host.WaitStatus(channel.StateReady)
		})
	}
}

func TestEncryptedRoomsAreSpokenOf(t *testing.T) {
	s := newSite(t)
	s.Post(group, ann, "m.room.encrypted", map[string]any{"algorithm": "m.megolm.v1.aes-sha2"})
	if text := s.host.WaitStatus(channel.StateDegraded); !strings.Contains(text, "encrypted") {
		t.Errorf("says %q", text)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	good := map[string]any{"homeserver": "https://x.test", "user_id": "@a:b"}
	for _, c := range []struct {
		name, key string
		value     any
		path      string
	}{
		{"no homeserver", "homeserver", "", "homeserver"},
		{"no user", "user_id", "flynn", "user_id"},
		{"a glob without a server", "accept_invites", []string{"*"}, "accept_invites.0"},
		{"a poll that is too long", "sync_seconds", 1000, "sync_seconds"},
		{"unknown", "room", "x", "room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := map[string]any{c.key: c.value}
			for k, v := range good {
				if k != c.key {
					settings[k] = v
				}
			}
			_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: settings, Secrets: map[string]string{"access_token": "x"}})
			wrong, ok := errors.AsType[channel.FieldErrors](err)
			if !ok || wrong[0].Path != c.path {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzEvent(f *testing.F) {
	f.Add("m.room.message", []byte(`{"msgtype":"m.text","body":"x","m.relates_to":{"rel_type":"m.thread","event_id":"$r"}}`))
	f.Add("m.reaction", []byte(`{"m.relates_to":{"rel_type":"m.annotation","event_id":"$r","key":"k"}}`))
	f.Add("m.room.message", []byte(`{"msgtype":"m.image","body":"> <@a:b>\n\nx","url":"mxc://a/b","m.relates_to":{"m.in_reply_to":{"event_id":"$q"}}}`))
	p := &plugin{settings: settings{UserID: matrixtest.User}}
	p.members.Set(dm, 2, 0)
	f.Fuzz(func(t *testing.T, kind string, content []byte) {
		e, ok := p.event(context.Background(), dm, event{ID: "$e", Type: kind, Sender: ann, Content: content})
		if !ok {
			return
		}
		for _, a := range e.Attachments {
			if _, _, ok := mxc(a.Handle); !ok {
				t.Errorf("handle %q", a.Handle)
			}
		}
		if e.Kind == channel.EventMessage && e.Text == "" && len(e.Attachments) == 0 {
			t.Errorf("an empty message: %+v", e)
		}
	})
}
