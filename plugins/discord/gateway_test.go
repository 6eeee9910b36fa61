package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/discord/discordtest"
	"github.com/flynnhost/flynn/sdk/channel"
)

func TestConnectionEndsAndNothingIsLost(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     func(*setting)
		resumes bool
	}{
		{"without a word", func(s *setting) { s.Drop() }, true},
		{"on request", func(s *setting) { s.Reconnect() }, true},
		{"with a code of the network", func(s *setting) { s.Hangup(1001) }, true},
		{"with an unknown error", func(s *setting) { s.Hangup(4000) }, true},
		{"the session has timed out", func(s *setting) { s.Hangup(4009) }, false},
		{"the session is invalid", func(s *setting) { s.Invalidate() }, false},
		{"discord forgets the session", func(s *setting) { s.Forget(); s.Drop() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSetting(t)
			h := s.bot(nil)
			s.Say(s.room, s.ann, "one")
			s.Say(s.private, s.ann, "two")
			texts(t, h, 2)
			before := s.Counts()
			s.Fail(fault404())
			c.end(s)
			s.Await("the connection ends", func() bool {
				return s.Counts().Connected == 0 || s.Counts().Identified+s.Counts().Resumed > before.Identified+before.Resumed
			})
			s.Say(s.room, s.ann, "three")
			s.Say(s.private, s.ann, "four")
			got := unique(t, h, "three", "four")
			if !slices.Equal(got, []string{"four", "three"}) {
				t.Errorf("got %q", got)
			}
			if after := s.Counts(); c.resumes != (after.Resumed > before.Resumed) || c.resumes == (after.Identified > before.Identified) {
				t.Errorf("counts went from %+v to %+v", before, after)
			}
		})
	}
}

// unique takes events over until all texts are there, and returns those that came, sorted. An event that is fetched and comes as
// well has one id for both.
func unique(t *testing.T, h hostLike, want ...string) []string {
	t.Helper()
	seen := map[string]string{}
	for len(seen) < len(want) {
		e := h.Event()
		h.Ack()
		if text, again := seen[e.ID]; again && text != e.Text {
			t.Errorf("event %s says %q and %q", e.ID, text, e.Text)
		}
		seen[e.ID] = e.Text
	}
	var all []string
	for _, text := range seen {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

type hostLike interface {
	Event() channel.Event
	Ack()
}

func TestARestartResumes(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	one := s.Say(s.room, s.ann, "one")
	texts(t, h, 1)
	s.settled(s.room, one)
	s.Say(s.room, s.ann, "two")
	h.Event() // not acked: the host does not have it
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	s.Say(s.private, s.ann, "three")
	s.Say(s.room, s.bob, "<@"+s.Self.ID+"> four")
	h = s.bot(nil)
	if got := texts(t, h, 2); !slices.Equal(got, []string{"two", "three"}) {
		t.Errorf("got %q", got)
	}
	// Discord does not introduce anybody again.
	if e := next(t, h); e.Text != "four" || !e.Mentioned || !slices.Equal(e.Sender.Roles, []string{"moderator", "member"}) {
		t.Errorf("event is %+v", e)
	}
	sent, err := h.Send(s.to("mine"))
	if err != nil {
		t.Fatal(err)
	}
	s.Say(s.room, s.ann, "five")
	if e := next(t, h); e.Text != "five" {
		t.Errorf("the bot hears itself say %s: %+v", sent.MessageIDs[0], e)
	}
	if c := s.Counts(); c.Resumed != 1 || c.Identified != 1 {
		t.Errorf("counts are %+v", c)
	}
}

func TestARestartAfterTheSessionFetches(t *testing.T) {
	s := newSetting(t)
	s.Say(s.room, s.ann, "before Flynn ever came")
	h := s.bot(nil)
	s.Say(s.room, s.ann, "one")
	private := s.Say(s.private, s.ann, "private")
	texts(t, h, 2)
	s.settled(s.private, private)
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	var want []string
	for i := range 150 { // more than a page
		want = append(want, fmt.Sprintf("missed %03d", i))
		s.Say(s.room, s.ann, want[i])
	}
	thread, other := s.Channel(s.guild, s.room), s.Channel(s.guild, "")
	s.Say(thread, s.ann, "a thread of that time")
	s.Say(other, s.ann, "a channel of that time")
	s.Say(s.private, s.ann, "and private")
	h = s.bot(nil)
	if got := texts(t, h, 1); got[0] != "and private" {
		t.Errorf("first is %q", got)
	}
	if got := texts(t, h, 150); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	rest := texts(t, h, 2)
	if slices.Sort(rest); !slices.Equal(rest, []string{"a channel of that time", "a thread of that time"}) {
		t.Errorf("got %q", rest)
	}
}

func TestCatchUpObeysLimits(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	one := s.Say(s.private, s.ann, "one")
	texts(t, h, 1)
	s.settled(s.private, one)
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	s.Say(s.private, s.ann, "two")
	s.Fail(limit("GET", "/messages", 0.2, false))
	began := time.Now()
	h = s.bot(nil)
	if got := texts(t, h, 1); got[0] != "two" || time.Since(began) < 200*time.Millisecond {
		t.Errorf("got %q after %v", got, time.Since(began))
	}
}

func TestASilentGatewayIsLeft(t *testing.T) {
	s := newSetting(t)
	s.Heartbeat(4 * time.Second) // also the time that an answer may take
	h := s.bot(nil)
	s.Await("heartbeats", func() bool { return s.Counts().Beats > 1 })
	if c := s.Counts(); c.Resumed != 0 {
		t.Errorf("counts are %+v although heartbeats were answered", c)
	}
	s.Silence(true)
	s.Await("another connection", func() bool { return s.Counts().Resumed > 0 })
	s.Silence(false)
	s.Say(s.room, s.ann, "there?")
	if got := texts(t, h, 1); got[0] != "there?" {
		t.Errorf("got %q", got)
	}
}

func TestWhatAPersonHasToPutRight(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*setting)
		want string
	}{
		{"wrong token at the gateway", func(s *setting) { s.Refuse(4004) }, "reset it"},
		{"intents that are not turned on", func(s *setting) { s.Refuse(4014) }, "Message Content Intent"},
		{"wrong token at the API", func(s *setting) { s.Token = "another" }, "reset it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSetting(t)
			token := s.Token
			c.do(s)
			other := s.Token
			s.Token = token
			h := s.startingWith(other)
			if text := h.WaitStatus(channel.StateAuthRequired); !strings.Contains(text, c.want) {
				t.Errorf("status is %q", text)
			}
		})
	}
}

func TestNoMoreSessionsThanDiscordAllows(t *testing.T) {
	s := newSetting(t)
	s.Fail(discordtest.Fault{Path: "/gateway/bot", Status: 200, Body: `{"url":"ws://127.0.0.1:1","session_start_limit":{"remaining":0,"reset_after":3600000}}`})
	h := s.starting(nil)
	if text := h.WaitStatus(channel.StateRateLimited); !strings.Contains(text, "1h") || s.Counts().Connected != 0 {
		t.Errorf("status is %q, counts are %+v", text, s.Counts())
	}
}

func TestStrangeFrames(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	for _, f := range []string{
		`{"op":99,"d":{}}`, `{"op":0,"s":3,"t":"SOMETHING_NEW","d":{"a":1}}`, `{"op":1,"d":null}`,
		`{"op":0,"s":4,"t":"MESSAGE_CREATE","d":{"id":[]}}`, `{"op":0,"s":5,"t":"MESSAGE_CREATE","d":{}}`,
		`{"op":0,"s":6,"t":"INTERACTION_CREATE","d":{"type":2,"id":"1","data":{}}}`, `{"op":0,"s":7,"t":"GUILD_CREATE","d":{"channels":[null],"roles":[null]}}`,
	} {
		s.Inject(f)
	}
	s.Say(s.room, s.ann, "still there?")
	if got := texts(t, h, 1); got[0] != "still there?" {
		t.Errorf("got %q", got)
	}
	s.Inject(`no JSON`)
	s.Await("another connection", func() bool { return s.Counts().Resumed+s.Counts().Identified > 1 })
}

func TestAChatThatWasNotAckedIsFetched(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	s.Say(s.private, s.ann, "one")
	h.Event() // the host goes down before it has it
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	s.Say(s.private, s.ann, "two")
	h = s.bot(nil)
	if got := texts(t, h, 2); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q", got)
	}
}

func TestIntents(t *testing.T) {
	s := newSetting(t)
	s.bot(map[string]any{"message_content": false})
	if got := s.Counts().Intents; got&intentMessageContent != 0 || got&intentDirectMessages == 0 {
		t.Errorf("intents are %b", got)
	}
}
