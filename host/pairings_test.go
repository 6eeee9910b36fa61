package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// pairingHost is a host that does not run, with a channel tg that pairs.
func pairingHost(t *testing.T) *Host {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := "[store]\ndir = \"" + dir + "/s\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\n" +
		"[access]\nowners = [\"tg:ann\"]\n[channels.tg]\nplugin = \"telegram\"\ntrust_senders = true\naccess = \"pair\"\n" +
		"[approvals]\nconversations = [\"tg:ops\", \"irc:ops\"]\n[channels.irc]\nplugin = \"irc\"\nenabled = false\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close() })
	return h
}

// TestEveryFrontendGoesThroughTheGate: the gate in force, and nothing else, decides about messages on the frontends of the host.
func TestEveryFrontendGoesThroughTheGate(t *testing.T) {
	h := pairingHost(t)
	before := h.current.Load()
	judged := map[string]channel.Decision{}
	after := *before
	after.Gate = channel.NewGate(channel.GateConfig{
		Config: before.Config, Roles: before.Roles, Now: before.Gate.Now, Events: event.Only(func(j channel.Judged) { judged[j.Channel] = j.Decision }),
	})
	h.current.Store(&after)
	for _, frontend := range config.BuiltinChannels() {
		people := map[string]channel.Decision{config.Gatekeeper: channel.Allowed, "stranger": channel.NotAClient}
		accept := h.backend().Conversations.Submit
		if frontend == message.ScheduleChannel { // of the host's own making: in the name of somebody, and never by the gateway
			people = map[string]channel.Decision{"tg:ann": channel.Allowed, "tg:eve": channel.NotListed, "web:owner": channel.Allowed}
			if err := accept(t.Context(), message.Message{Channel: frontend, EventID: "x", Sender: message.Sender{ID: "tg:ann"}}); err == nil {
				t.Error("the gateway speaks for a schedule")
			}
			accept = h.inbox.Accept
		}
		if frontend == message.ConsoleChannel { // people who are signed in, as in their chats
			people = map[string]channel.Decision{"tg:ann": channel.Allowed, "tg:eve": channel.NotListed, "web:owner": channel.NotProved}
		}
		for who, want := range people {
			if slices.Contains(config.LocalFrontends(), frontend) {
				want = channel.Allowed // who is there holds the token of the machine, whatever he is called
			}
			delete(judged, frontend)
			m := message.Message{
				Channel: frontend, EventID: who, Conversation: message.Conversation{ID: "c", Kind: message.DM}, Sender: message.Sender{ID: who}, Agent: "a",
			}
			if frontend == message.ConsoleChannel {
				m.Conversation.ID = message.ConsoleConversation(message.SenderKey(who), "c")
			}
			var refused channel.Refused
			if err := accept(t.Context(), m); err != nil && (frontend != message.ConsoleChannel || !errors.As(err, &refused) || refused.Decision != want) {
				t.Fatal(err)
			}
			if judged[frontend] != want {
				t.Errorf("%s:%s was judged %q, want %q", frontend, who, judged[frontend], want)
			}
			if refused.Decision != "" {
				continue // nothing is kept, and the sender knows
			}
			row, err := h.store.FindInbox(t.Context(), frontend, who)
			if err != nil || (row.State == mailbox.InboxNew) != (want == channel.Allowed) || row.Note != want.Why() {
				t.Errorf("%s:%s is kept as %s, %q (%v)", frontend, who, row.State, row.Note, err)
			}
		}
	}
	if err := h.backend().Conversations.Submit(t.Context(), message.Message{Channel: "tg", EventID: "x", Sender: message.Sender{ID: "ann"}}); err == nil {
		t.Error("a channel uses a frontend of the host's own")
	}
}

// paired has eve ask and let in.
func paired(t *testing.T, h *Host) {
	t.Helper()
	say(t, h, "knock", mailbox.InboxDropped)
	list, err := h.backend().Access.Access(t.Context())
	if err != nil || len(list) != 1 || list[0].Code == "" {
		t.Fatalf("access is %+v (%v)", list, err)
	}
	if _, err := h.backend().Access.DecidePairing(t.Context(), list[0].Code, true, "web:owner"); err != nil {
		t.Fatal(err)
	}
}

// say accepts a message of eve's.
func say(t *testing.T, h *Host, event string, want mailbox.InboxState) {
	t.Helper()
	if err := h.inbox.Accept(t.Context(), message.Message{
		Channel: "tg", EventID: event, Text: "hello", Addressed: true, Sender: message.Sender{ID: "eve"}, Conversation: message.Conversation{ID: "eve", Kind: message.DM},
	}); err != nil {
		t.Fatal(err)
	}
	if row, err := h.store.FindInbox(t.Context(), "tg", event); err != nil || row.State != want {
		t.Fatalf("%s is kept as %s, %q (%v), want %s", event, row.State, row.Note, err, want)
	}
}

// TestMessagesThatWaitAreJudgedAgain: who is shut out, by an owner or by the configuration, is not answered any more.
func TestMessagesThatWaitAreJudgedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		shut func(*Host) error
		note string
	}{
		"revoked": {func(h *Host) error {
			return h.backend().Access.RevokePairing(context.Background(), "tg:eve", "web:owner")
		}, "sender is not paired"},
		"blocked by a reload": {func(h *Host) error {
			next := *h.current.Load().Config
			next.Access.Blocked = []string{"tg:e*"}
			g, err := h.current.Make(&next)
			if err == nil {
				h.current.Store(g)
			}
			return err
		}, "sender is in access.blocked"},
	} {
		t.Run(name, func(t *testing.T) {
			h := pairingHost(t)
			paired(t, h)
			say(t, h, "waits", mailbox.InboxNew)
			if err := c.shut(h); err != nil {
				t.Fatal(err)
			}
			items, err := agent.Recover(t.Context(), h.store)
			if err != nil || len(items) != 1 {
				t.Fatalf("%d items wait (%v)", len(items), err)
			}
			h.runner.Work(t.Context(), "tg:eve", items)
			row, err := h.store.FindInbox(t.Context(), "tg", "waits")
			if err != nil || row.State != mailbox.InboxDropped || row.Note != c.note {
				t.Errorf("kept as %s, %q (%v), want it dropped: %s", row.State, row.Note, err, c.note)
			}
			say(t, h, "later", mailbox.InboxDropped)
		})
	}
}

// TestRolesFollowThePairingAtOnce: what is raised or lowered counts for the next decision, without a reload.
func TestRolesFollowThePairingAtOnce(t *testing.T) {
	h := pairingHost(t)
	paired(t, h)
	roles := h.current.Load().Roles
	if got := roles.Of("tg", "tg:eve"); got != route.Guest {
		t.Errorf("paired as %s", got)
	}
	if err := h.backend().Access.SetPairingRole(t.Context(), "tg:eve", route.Member, "web:owner"); err != nil {
		t.Fatal(err)
	}
	if got := roles.Of("tg", "tg:eve"); got != route.Member {
		t.Errorf("raised to %s", got)
	}
	if err := h.backend().Access.RevokePairing(t.Context(), "tg:eve", "web:owner"); err != nil {
		t.Fatal(err)
	}
	if roles.Known("tg", "tg:eve") || h.owners.SelfApprove("tg:eve") {
		t.Error("who is shut out still counts")
	}
}

// TestOwnersAreToldOfStrangers: in the conversations for approvals, and where an owner was answered in private; over channels that are in
// use.
func TestOwnersAreToldOfStrangers(t *testing.T) {
	h := pairingHost(t)
	private := message.Conversation{ID: "d-7", Kind: message.DM}
	for i, where := range []message.Conversation{private, {ID: "#all", Kind: message.Group}} {
		turn := turnlog.Turn{
			ID: store.NewID(time.Now()) + strconv.Itoa(i), Session: "s", Agent: "a", Channel: "tg", Conversation: where, Sender: "tg:ann", State: turnlog.TurnDone,
		}
		if err := h.store.CommitTurn(t.Context(), turnlog.Commit{Turn: turn}); err != nil {
			t.Fatal(err)
		}
	}
	say(t, h, "knock", mailbox.InboxDropped)
	rows, err := h.store.UnsentOutbox(t.Context())
	if err != nil || len(rows) != 3 {
		t.Fatalf("the outbox has %+v (%v)", rows, err)
	}
	for i, want := range []message.Conversation{{ID: "eve", Kind: message.DM}, {ID: "ops", Kind: message.DM}, private} {
		if r := rows[i].Reply; r.Channel != "tg" || r.Conversation != want {
			t.Errorf("reply %d goes to %+v, want %+v", i, r, want)
		}
	}
	off := *h.current.Load().Config
	off.Access.PairNotice = false
	g, err := h.current.Make(&off)
	if err != nil {
		t.Fatal(err)
	}
	h.current.Store(g)
	if got := h.owners.ToldOfStrangers(t.Context()); got != nil {
		t.Errorf("switched off, and told in %+v", got)
	}
}
