package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// demoHost is a running host whose agent answers with the demo provider.
func demoHost(t *testing.T, more string) *cliHome {
	t.Helper()
	dir := t.TempDir()
	return runCLI(t, dir, "[store]\ndir = \""+filepath.Join(dir, "s")+"\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"main\"\n"+
		"[models.default]\nprovider = \"demo\"\n[agent_configs.main]\ntool_profile = \"coding\"\n"+more)
}

// kept is all that the store has of what was said in the conversation.
func (s *cliHome) kept() int {
	s.t.Helper()
	list, err := s.host.backend().Conversations.History(s.t.Context(), gateway.ChannelWeb, "c", 100)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}

func TestASessionIsDeletedInTheRunningHost(t *testing.T) {
	s := demoHost(t, "")
	b, ctx := s.host.backend(), t.Context()
	if err := b.Sessions.DeleteSession(ctx, "web:c:main", "terminal:owner", false); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "no session") {
		t.Errorf("a session that is not there: %v", err)
	}
	event := s.say("remember the blue house")
	s.expect(s.answer(event), "blue house")
	if err := b.Sessions.DeleteSession(ctx, "web:c:main", "terminal:owner", false); err != nil {
		t.Fatal(err)
	}
	if n := s.kept(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	if row, err := s.host.store.FindInbox(ctx, gateway.ChannelWeb, event); err != nil || row.Message.Text != "" {
		t.Errorf("the inbox says %q (%v)", row.Message.Text, err)
	}
	s.ask("hello") // in a session that knows nothing
	if v, err := s.host.store.Session(ctx, "web:c:main"); err != nil || v.Turns != 1 {
		t.Errorf("the new session is %+v (%v)", v, err)
	}

	t.Run("not while an answer is made, unless it is to be stopped", func(t *testing.T) {
		s.say("!sh echo waits for an approval")
		eventually(t, "the call waits", func() bool { list, err := b.Approvals.Approvals(ctx); return err == nil && len(list) == 1 })
		err := b.Sessions.DeleteSession(ctx, "web:c:main", "terminal:owner", false)
		if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "--stop") {
			t.Errorf("while a turn runs: %v", err)
		}
		if err := b.Sessions.DeleteSession(ctx, "web:c:main", "terminal:owner", true); err != nil {
			t.Fatal(err)
		}
		if n := s.kept(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
	t.Run("with its whole conversation, as the page asks for it", func(t *testing.T) {
		for _, gone := range []string{"web:none", "tg:1"} {
			channel, id, _ := strings.Cut(gone, ":")
			if err := b.Conversations.DeleteConversation(ctx, channel, id, "web:owner", true); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", gone, err)
			}
		}
		s.ask("one")
		s.say("/new")
		s.ask("two")
		list, err := b.Conversations.Conversations(ctx, gateway.ConversationFilter{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Turns != 2 {
			t.Fatalf("conversations: %+v (%v)", list, err)
		}
		s.say("!sh echo waits for an approval")
		eventually(t, "the call waits", func() bool { list, err := b.Approvals.Approvals(ctx); return err == nil && len(list) == 1 })
		if err := b.Conversations.DeleteConversation(ctx, gateway.ChannelWeb, "c", "web:owner", false); !errors.Is(err, store.ErrConflict) {
			t.Errorf("while a turn runs: %v", err)
		}
		if err := b.Conversations.DeleteConversation(ctx, gateway.ChannelWeb, "c", "web:owner", true); err != nil {
			t.Fatal(err)
		}
		if list, err := b.Conversations.Conversations(ctx, gateway.ConversationFilter{}); err != nil || len(list.Items) != 0 || s.kept() != 0 {
			t.Errorf("left: %+v, %d entries (%v)", list, s.kept(), err)
		}
	})
	t.Run("with what waits behind the answer that is being made", func(t *testing.T) {
		if _, err := s.host.store.Session(ctx, "web:c:main"); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("it is no first turn: %v", err)
		}
		long := s.say("!slow 3600000 one")
		eventually(t, "the answer is being made", func() bool { return s.host.runner.Running("web:c") })
		s.say("!slow 3600000 two")
		if err := b.Conversations.DeleteConversation(ctx, gateway.ChannelWeb, "c", "web:owner", false); !errors.Is(err, store.ErrConflict) {
			t.Errorf("while the first turn runs: %v", err)
		}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := b.Conversations.DeleteConversation(short, gateway.ChannelWeb, "c", "web:owner", true); err != nil {
			t.Fatal(err)
		}
		if row, err := s.host.store.FindInbox(ctx, gateway.ChannelWeb, long); err != nil || row.Message.Text != "" || s.kept() != 0 {
			t.Errorf("the inbox says %q, %d entries are left (%v)", row.Message.Text, s.kept(), err)
		}
	})
	t.Run("in chat, after a question", func(t *testing.T) {
		s.ask("one")
		s.say("/new")
		s.ask("two")
		s.say("/delete")
		eventually(t, "the question", func() bool { return s.replied("Write `/delete yes`", "2 answers") })
		if s.kept() == 0 {
			t.Error("deleted without a confirmation")
		}
		s.say("/delete yes")
		eventually(t, "the conversation is deleted", func() bool { return s.replied("Deleted: 2 answers") && s.kept() == 0 })
		rows, err := s.host.store.ListAudit(ctx, consent.AuditFilter{Kind: consent.AuditDeleted})
		if err != nil || len(rows) < 2 || rows[len(rows)-2].Actor != "web:me" || rows[len(rows)-1].Actor != "web:me" {
			t.Errorf("audit: %+v (%v)", rows, err)
		}
	})
	t.Run("when its time is over", func(t *testing.T) {
		s.ask("old")
		g := *s.host.current.Load()
		c := *g.Config
		g.Config = &c
		s.host.current.Store(&g)
		for _, v := range []struct {
			days  int
			after time.Duration
			left  int
		}{{0, 1000 * time.Hour, 1}, {7, 24 * time.Hour, 1}, {7, 9 * 24 * time.Hour, 0}} {
			c.Retention.SessionsDays = v.days
			// A turn that has just answered may not have left yet; its session is for the next look.
			eventually(t, fmt.Sprintf("kept for %d days, after %v: %d sessions", v.days, v.after, v.left), func() bool {
				s.host.sessions.Look(ctx, time.Now().Add(v.after))
				list, err := s.host.store.Sessions(ctx, 10)
				return err == nil && len(list) == v.left
			})
		}
	})
}

// replied reports whether a command was answered with all of the words.
func (s *cliHome) replied(words ...string) bool {
	s.t.Helper()
	for id := range int64(40) {
		rows, err := s.host.store.Replies(s.t.Context(), fmt.Sprintf("command-%d", id))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range rows {
			if containsAll(r.Reply.Text, words) {
				return true
			}
		}
	}
	return false
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
