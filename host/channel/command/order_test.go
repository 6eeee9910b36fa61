package command

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// order takes a command through the inbox and the queue and returns the answer.
func (h *house) order(event, who, text string, kind message.Kind) string {
	h.t.Helper()
	row := h.accept(event, who, text, kind)
	before := len(h.replied)
	h.service.Order(h.t.Context(), "irc:#busy", row)
	if len(h.replied) != before+1 {
		h.t.Fatalf("%d replies to %q, want 1", len(h.replied)-before, text)
	}
	return h.replied[before].Text
}

func (h *house) scope() turnlog.Scope {
	h.t.Helper()
	p, err := h.store.Scope(h.t.Context(), "irc:#busy")
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

func TestOrders(t *testing.T) {
	free := Session{Agent: "helper", Tier: "default", Agents: []string{"coder", "helper"}, Tiers: []string{"default", "fast"}}
	fixed := free
	fixed.Fixed = true
	chosen := turnlog.Scope{Key: "irc:#busy", Epoch: 1, Agent: "coder", Tier: "fast"}
	for _, c := range []struct {
		name      string
		session   Session
		was       turnlog.Scope
		who, text string
		kind      message.Kind
		says      string
		epoch     int
		agent     string
		tier      string
	}{
		{name: "a new session in private", who: "bob", text: "/new", kind: message.DM, says: "A new session", epoch: 2},
		{name: "a guest in a group", who: "bob", text: "/new", kind: message.Group, says: "Only owners and members", epoch: 1},
		{name: "an owner in a group", who: "ann", text: "/new", kind: message.Group, says: "A new session", epoch: 2},
		{name: "what was chosen stays", was: chosen, who: "bob", text: "/new", kind: message.DM, says: "A new session", epoch: 2, agent: "coder", tier: "fast"},
		{name: "list", session: free, who: "bob", text: "/agent", kind: message.DM, says: "Agent helper answers you here. You can choose with `/agent NAME`: coder, helper.", epoch: 1},
		{name: "list without a choice", session: Session{Agent: "helper"}, who: "bob", text: "/agent", kind: message.DM, says: "no other to choose", epoch: 1},
		{name: "choose", session: free, who: "bob", text: "/agent coder", kind: message.DM, says: "Agent coder answers", epoch: 1, agent: "coder"},
		{name: "a guest chooses in a group", session: free, who: "bob", text: "/agent coder", kind: message.Group, says: "Only owners", epoch: 1},
		{name: "another agent", session: free, who: "bob", text: "/agent admin", kind: message.DM, says: "You cannot choose", epoch: 1},
		{name: "a rule for the sender", session: fixed, who: "bob", text: "/agent coder", kind: message.DM, says: "The configuration says", epoch: 1},
		{name: "undo", session: free, was: chosen, who: "bob", text: "/agent default", kind: message.DM, says: "that the configuration names", epoch: 1, tier: "fast"},
		{name: "tiers", session: free, who: "bob", text: "/model", kind: message.DM, says: "`/model TIER`: default, fast.", epoch: 1},
		{name: "a program with a model of its own", session: Session{Agent: "codex", Tier: "default", OwnModel: true}, who: "bob", text: "/model", kind: message.DM, says: "Agent codex has its own model. There is no other", epoch: 1},
		{name: "back from a choice", session: free, was: chosen, who: "bob", text: "/agent nobody", kind: message.DM, says: "`/agent default` undoes the choice", epoch: 1, agent: "coder", tier: "fast"},
		{name: "choose a tier", session: free, who: "bob", text: "/model fast", kind: message.DM, says: "tier fast answers here", epoch: 1, tier: "fast"},
		{name: "a tier that is not allowed", session: free, who: "bob", text: "/model complex", kind: message.DM, says: "You cannot choose", epoch: 1},
		{name: "a guest chooses a tier in a group", session: free, who: "bob", text: "/model fast", kind: message.Group, says: "Only owners", epoch: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.session = c.session
			if c.was.Key != "" {
				if err := h.store.SetScope(t.Context(), c.was); err != nil {
					t.Fatal(err)
				}
			}
			if got := h.order("e1", c.who, c.text, c.kind); !strings.Contains(got, c.says) {
				t.Errorf("says %q, want %q in it", got, c.says)
			}
			if p := h.scope(); p.Epoch != c.epoch || p.Agent != c.agent || p.Tier != c.tier {
				t.Errorf("the place is %+v", p)
			}
			if pending, err := h.store.PendingInbox(t.Context()); err != nil || len(pending) != 0 {
				t.Errorf("%d messages are left, %v", len(pending), err)
			}
		})
	}
}

// brokenStore fails at settling, once.
type brokenStore struct {
	Store
	failed bool
}

func (s *brokenStore) Settle(ctx context.Context, order turnlog.Settlement) error {
	if !s.failed {
		s.failed = true
		return errors.New("disk is full")
	}
	return s.Store.Settle(ctx, order)
}

// TestAnOrderIsCarriedOutOnce: after trouble with the store, and by a second process that finds the message still there.
func TestAnOrderIsCarriedOutOnce(t *testing.T) {
	h := newHouse(t)
	noted, _, err := h.store.AppendInbox(t.Context(), message.Message{Channel: "irc", EventID: "e0"}, mailbox.InboxNoted, "")
	if err != nil {
		t.Fatal(err)
	}
	h.untold = []int64{noted.ID}
	h.service.cfg.Store = &brokenStore{Store: h.store}
	row := h.accept("e1", "ann", "/new", message.DM)
	h.service.Order(t.Context(), "irc:#busy", row)
	h.service.Order(t.Context(), "irc:#busy", row)
	if p := h.scope(); p.Epoch != 2 || p.Why != turnlog.BeganAsked || time.Since(p.Began) > time.Minute || len(h.replied) != 1 {
		t.Errorf("the place is %+v after %d replies", p, len(h.replied))
	}
	if rows, err := h.store.NotedInbox(t.Context()); err != nil || len(rows) != 0 {
		t.Errorf("%d notes about the session before are left, %v", len(rows), err)
	}
}

func TestAnUndoneTierMayBeCalledDefault(t *testing.T) {
	h := newHouse(t)
	h.session = Session{Agent: "helper", Tier: "complex", Tiers: []string{"complex", "default"}}
	if got := h.order("e1", "bob", "/model default", message.DM); !strings.Contains(got, "`/model complex` undoes it") || h.scope().Tier != "default" {
		t.Errorf("says %q, the place is %+v", got, h.scope())
	}
	if h.order("e2", "bob", "/model complex", message.DM); h.scope().Tier != "complex" {
		t.Errorf("the place is %+v", h.scope())
	}
}

func TestStatusOfAProgramNamesNoTiersModel(t *testing.T) {
	d := &Service{cfg: Config{Now: time.Now}}
	if got := d.describe(Session{Agent: "codex", Tier: "default", Model: "demo", OwnModel: true}); !strings.Contains(got, "- Model: its own") || strings.Contains(got, "demo") {
		t.Errorf("status says %q", got)
	}
}
