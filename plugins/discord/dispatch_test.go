package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/flynnhost/flynn/sdk/channel"
)

// sink takes everything over at once.
type sink struct {
	channel.Inbox
	t *testing.T
}

func (s sink) DeliverAsync(_ context.Context, e channel.Event, done func(error)) error {
	if e.ID == "" || e.Conversation.ID == "" || e.Sender.ID == "" {
		s.t.Errorf("event is %+v", e)
	}
	done(nil)
	return nil
}

func (s sink) Status(channel.State, string) {}

// FuzzDispatch gives events that no Discord sends.
func FuzzDispatch(f *testing.F) {
	for _, kind := range []string{
		"GUILD_CREATE", "GUILD_UPDATE", "GUILD_DELETE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "CHANNEL_CREATE", "THREAD_LIST_SYNC", "MESSAGE_CREATE",
		"MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "MESSAGE_REACTION_ADD",
	} {
		f.Add(kind, `{"id":"1","channel_id":"2","guild_id":"3","user_id":"4","message_id":"5","author":{"id":"6"},"content":"<@1> x","role":{"id":"7"},"role_id":"8"}`)
		f.Add(kind, `{"channels":[null],"threads":[null],"roles":[null],"mentions":[null],"attachments":[null],"author":null,"member":{"user":null},"ids":["x"]}`)
	}
	f.Add("MESSAGE_UPDATE", `{"id":"1","channel_id":"2","author":{"id":"6"},"edited_timestamp":"2020-01-01T00:00:00Z","message_reference":{},"type":19}`)
	f.Add("INTERACTION_CREATE", `{"type":2,"id":"1","channel_id":"2","token":"x","user":{"id":"3"},"data":{"name":"ask","options":[null]}}`)
	f.Add("INTERACTION_CREATE", `{"type":3,"id":"1","channel_id":"2","token":"x","member":{"user":{"id":"3"}},"data":{"custom_id":"flynn:"},"message":{"id":"4"}}`)
	f.Add("MESSAGE_REACTION_ADD", `{"channel_id":"2","message_id":"5","member":{"user":{}}}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, kind, text string) {
		if kind == "READY" || !json.Valid([]byte(text)) {
			t.Skip() // it asks Discord
		}
		p := &plugin{}
		c := channel.Config{
			Settings: map[string]any{"api": "http://127.0.0.1:1", "catch_up": 0}, Secrets: map[string]string{"token": "x"}, StateDir: dir, Log: quiet(),
		}
		if err := p.Configure(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		p.gateway, p.running = &gateway{client: p.client}, ended
		defer p.tasks.Wait()
		if err := p.dispatch(t.Context(), sink{t: t}, kind, 1, []byte(text)); err != nil {
			t.Errorf("%s %s: %v", kind, text, err)
		}
	})
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

// TestARefusedEventIsPassed: it does not come again, and what was not taken for another reason does.
func TestARefusedEventIsPassed(t *testing.T) {
	refused := fmt.Errorf("%w: sender.id is empty", channel.ErrMalformed)
	for _, c := range []struct {
		in   refusing
		want int64
	}{
		{refusing{}, 2}, {refusing{later: refused}, 2}, {refusing{later: errors.New("ending")}, 1}, {refusing{now: errors.New("ending")}, 1},
	} {
		position, err := loadPosition(channel.Config{StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		position.begin(session{ID: "s", Self: "1"})
		position.passed(1)
		var heard []error
		x := &incoming{plugin: &plugin{log: quiet(), position: position}, in: c.in, ctx: t.Context(), session: "s", seq: 2}
		err = x.deliver(channel.Event{ID: "e", Conversation: channel.Conversation{ID: "c"}}, func(err error) { heard = append(heard, err) })
		if got := position.resume().Seq; got != c.want || errors.Is(err, channel.ErrMalformed) {
			t.Errorf("%+v: position %d, want %d (%v)", c.in, got, c.want, err)
		}
		if ending := c.in.now != nil && c.want == 1; len(heard) != 1 && !ending {
			t.Errorf("%+v: heard %v", c.in, heard)
		}
	}
}
