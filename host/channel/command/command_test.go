package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want Command
		ok   bool
	}{
		{"/approve ABC", Command{Name: "approve", Arg: "ABC"}, true},
		{"  /Approve   ABC  ", Command{Name: "approve", Arg: "ABC"}, true},
		{"/stop@flynn_bot", Command{Name: "stop", Arg: ""}, true},
		{"/status", Command{Name: "status", Arg: ""}, true},
		{"/new@flynn", Command{Name: "new", Arg: ""}, true},
		{"/agent coder", Command{Name: "agent", Arg: "coder"}, true},
		{"/delete yes", Command{Name: "delete", Arg: "yes"}, true},
		{"/halt it deletes mail", Command{Name: "halt", Arg: "it deletes mail"}, true},
		{"/stop\nand something", Command{}, false},
		{"please /stop", Command{}, false},
		{"/unknown", Command{}, false},
		{"/stpo", Command{Near: "stop"}, true},
		{"/Sotp@flynn", Command{Near: "stop"}, true},
		{"/stopp", Command{Near: "stop"}, true},
		{"/haltt", Command{Near: "halt"}, true},
		{"/aprove ABC", Command{Near: "approve"}, true},
		{"/agnet coder", Command{Near: "agent"}, true},
		{"/stpo it now please", Command{}, false},
		{"/aprove of it all", Command{}, false},
		{"/step", Command{Near: "stop"}, true},
		{"/step 3 of the plan", Command{}, false},
		{"/steps", Command{}, false},
		{"/net", Command{}, false},
		{"/news", Command{}, false},
		{"/stop/", Command{}, false},
		{"/etc/passwd is a path", Command{}, false},
		{"//stop", Command{}, false},
		{"/stоp", Command{}, false}, // in Cyrillic
		{"/", Command{}, false},
		{"", Command{}, false},
		{"/approve " + strings.Repeat("x", maxLine), Command{}, false},
	} {
		if got, ok := Parse(c.text); got != c.want || ok != c.ok {
			t.Errorf("%q: %+v, %v", c.text, got, ok)
		}
	}
}

// TestNoRudeTextIsACommand: of all that may begin with a slash only the commands are carried out, and only near ones are asked about.
func TestNoRudeTextIsACommand(t *testing.T) {
	for _, text := range rude.Texts() {
		c, ok := Parse(text.Text)
		if want := text.Name == "chat_command"; ok != want {
			t.Errorf("%s is %+v", text.Name, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("/approve ABC")
	f.Add("/stop@x y")
	f.Fuzz(func(t *testing.T, text string) {
		if c, ok := Parse(text); ok && ((c.Name == "") == (c.Near == "") || strings.ContainsAny(c.Name+c.Arg, "\r\n")) {
			t.Errorf("%q is %+v", text, c)
		}
	})
}

// house is a service over a real store, with one running turn and an owner.
type house struct {
	t                  *testing.T
	store              *sqlite.Store
	people             *approval.Service
	pairings           *pairing.Service
	service            *Service
	replied            []message.Reply
	stopped            []string
	compacted, applied int
	session            Session
	untold             []int64
	busy               bool
	elsewhere          bool // another host owns the conversation
	deleted            []message.SessionKey
	halted             string
	elevated           *consent.Elevation
	linked             []string
	published          []message.Event
	plan               snapshot.Plan
	undos              []string
	forked             snapshot.Copied
	forkErr            error
}

func newHouse(t *testing.T) *house {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h := &house{t: t, store: s}
	if h.people, err = approval.New(approval.Config{Store: s, Grants: s}); err != nil {
		t.Fatal(err)
	}
	if h.pairings, err = pairing.Open(t.Context(), pairing.Config{Store: s}); err != nil {
		t.Fatal(err)
	}
	h.service = New(Config{
		Store: s, Approvals: h.people, Elevated: h, Pairings: h.pairings, Console: h, Rules: h, Turns: h, Scopes: h, Sessions: h, Switch: h, Outbox: h, Ownership: h, Watchers: h,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	return h
}

// Refusal, Role, Scope and Persons implement Rules: ann and eve are owners, and mallory is not answered any more.
func (h *house) Refusal(m message.Message) string {
	if m.Sender.ID == "mallory" {
		return "revoked"
	}
	return ""
}

func (h *house) Role(_ string, key message.SenderKey) string {
	if strings.HasSuffix(string(key), ":ann") || strings.HasSuffix(string(key), ":eve") {
		return route.Owner
	}
	return route.Guest
}

func (h *house) Scope(m message.Message) string { return string(m.ConversationKey()) }

func (h *house) Persons(key message.SenderKey) []message.SenderKey {
	if key == "irc:bob" {
		return []message.SenderKey{key, "mail:bob"}
	}
	return []message.SenderKey{key}
}

// Stopper and Untold implement Turns: one turn runs.
func (h *house) Stopper(key string, _ time.Time) func() {
	if key != "irc:#busy" {
		return nil
	}
	return func() { h.stopped = append(h.stopped, fmt.Sprint(key, " after ", len(h.replied), " replies")) }
}

func (h *house) Untold(string) []int64 {
	ids := h.untold
	h.untold = nil
	return ids
}

// Look and Compact implement Scopes, In and Deleted Sessions.
func (h *house) Look(ctx context.Context, scope string, _ message.Message) (Session, error) {
	now := h.session
	var err error
	now.Scope, err = h.store.Scope(ctx, scope)
	now.Running = scope == "irc:#busy"
	return now, err
}

func (h *house) Compact(_ context.Context, at turnlog.Scope, row mailbox.InboxRow) (Compaction, error) {
	h.compacted++
	v := turnlog.Summary{ID: fmt.Sprint("s", row.ID), Session: message.SessionKey(at.Key + ":helper"), Through: "t1", Turns: 1, Text: "they met", At: time.Unix(1, 0).UTC()}
	return Compaction{Text: "Compacted.", Summary: &v, Applied: func() { h.applied++ }}, nil
}

func (h *house) In(ctx context.Context, scope string) ([]turnlog.Session, bool, error) {
	list, err := h.store.SessionsIn(ctx, scope)
	return list, h.busy, err
}

// PlanUndo and Undo implement Sessions: one plan, which irc:#busy refuses.
func (h *house) PlanUndo(_ context.Context, scope string, back int) (snapshot.Plan, error) {
	h.undos = append(h.undos, fmt.Sprint(scope, " plan ", back))
	if scope == "irc:#busy" {
		return snapshot.Plan{}, store.Conflict("an answer is being written here")
	}
	return h.plan, nil
}

func (h *house) Undo(_ context.Context, scope string, r snapshot.Request) (snapshot.Undone, error) {
	h.undos = append(h.undos, fmt.Sprint(scope, " undo ", r.Code, " ", r.Overwrite, " by ", r.By))
	if r.Code != h.plan.Code {
		return snapshot.Undone{}, store.Conflict(snapshot.ErrChanged.Error())
	}
	return snapshot.Undone{Plan: h.plan, Overwrote: r.Overwrite}, nil
}

// ForkAll implements Sessions, and Conversation Console.
func (h *house) ForkAll(_ context.Context, channel, conversation string, b turnlog.Branch) (snapshot.Copied, error) {
	h.undos = append(h.undos, fmt.Sprint("fork ", channel, ":", conversation, " to ", b.Channel, ":", b.Conversation.ID, " of ", b.Sender))
	return h.forked, h.forkErr
}

func (h *house) Conversation(channel, id string) string {
	return "http://console/#/" + channel + "/" + id
}

func (h *house) Deleted(_ context.Context, keys []message.SessionKey) {
	h.deleted = append(h.deleted, keys...)
}

// Set and Why implement Switch.
func (h *house) Set(_ context.Context, on bool, reason, by string) error {
	h.halted = ""
	if on {
		h.halted = by + ": " + reason
	}
	return nil
}

func (h *house) Why() string { return h.halted }

// Push implements Outbox, and Show Watchers.
func (h *house) Push(_ string, r message.Reply) { h.replied = append(h.replied, r) }

func (h *house) Show(_ context.Context, _, _ string, events ...message.Event) {
	h.published = append(h.published, events...)
}

// Begin, End and Of implement Elevator: ann may.
func (h *house) Begin(_ context.Context, m message.Message, state string, span time.Duration) (consent.Elevation, string, error) {
	if m.Sender.ID != "ann" {
		return consent.Elevation{}, "You may not.", nil
	}
	now := time.Now()
	h.elevated = &consent.Elevation{Conversation: m.ConversationKey(), State: state, Sender: m.SenderKey(), Began: now, Until: now.Add(span)}
	return *h.elevated, "", nil
}

func (h *house) End(context.Context, message.ConversationKey, string, string) (bool, error) {
	held := h.elevated != nil
	h.elevated = nil
	return held, nil
}

func (h *house) Of(context.Context, message.ConversationKey) (consent.Elevation, bool, error) {
	if h.elevated == nil {
		return consent.Elevation{}, false, nil
	}
	return *h.elevated, true, nil
}

// ask makes a request of bob's, or of the sender that is named.
func (h *house) ask(requester, args string) string {
	h.t.Helper()
	a, err := h.people.Request(h.t.Context(), approval.Ask{
		Binding: approval.Binding{Tool: "shell.exec", Args: []byte(args), Agent: "coder", Where: "host", Sandbox: "host", Policy: "p"},
		Turn:    "t1", Session: "irc:#busy:coder", Requester: message.SenderKey(requester), Reach: approval.ReachShell,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a.ID
}

func (h *house) Enter(ctx context.Context, key store.OwnerKey, _ func(context.Context) error) (context.Context, func(), error) {
	if _, is := key.Conversation(); !is {
		h.t.Errorf("enters %q", key)
	}
	if h.elsewhere {
		return nil, nil, store.ErrOwned
	}
	return ctx, func() {}, nil
}

// TestAnotherHostsConversation: what is about its running turn or its files is left to that host; the rest is carried out.
func TestAnotherHostsConversation(t *testing.T) {
	h := newHouse(t)
	h.elsewhere = true
	for _, text := range []string{"/stop", "/undo", "/fork"} {
		row := h.accept("left"+text, "ann", text, message.DM)
		if rest := h.service.Work(t.Context(), "", []mailbox.InboxRow{row}); len(rest) != 0 || len(h.replied) != 0 || len(h.stopped) != 0 {
			t.Errorf("%s: %d are left, %d replies, stopped %q", text, len(rest), len(h.replied), h.stopped)
		}
	}
	if pending, err := h.store.PendingInbox(t.Context()); err != nil || len(pending) != 3 {
		t.Errorf("%d wait for that host, %v", len(pending), err)
	}
	if got := h.say("help", "ann", "/help", message.DM); !strings.Contains(got, "/approve") {
		t.Errorf("help is %q", got)
	}
}

// say takes a message through the inbox and the service and returns the answer.
func (h *house) say(event, who, text string, kind message.Kind) string {
	h.t.Helper()
	return h.sayOn("irc", event, who, text, kind)
}

// sayOn is say on a channel instance.
func (h *house) sayOn(channel, event, who, text string, kind message.Kind) string {
	h.t.Helper()
	row := h.acceptOn(channel, event, who, text, kind)
	before := len(h.replied)
	if rest := h.service.Work(h.t.Context(), "", []mailbox.InboxRow{row}); len(rest) != 0 {
		h.t.Fatalf("%d rows are left", len(rest))
	}
	if len(h.replied) != before+1 {
		h.t.Fatalf("%d replies to %q, want 1", len(h.replied)-before, text)
	}
	return h.replied[before].Text
}

func (h *house) accept(event, who, text string, kind message.Kind) mailbox.InboxRow {
	h.t.Helper()
	return h.acceptOn("irc", event, who, text, kind)
}

func (h *house) acceptOn(channel, event, who, text string, kind message.Kind) mailbox.InboxRow {
	h.t.Helper()
	row, _, err := h.store.AppendInbox(h.t.Context(), message.Message{
		Channel: channel, EventID: event, Conversation: message.Conversation{ID: "#busy", Kind: kind},
		Sender: message.Sender{ID: who}, Text: text,
	}, mailbox.InboxNew, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

func TestService(t *testing.T) {
	for _, c := range []struct {
		name, requester, args, who, text string
		kind                             message.Kind
		want                             string
		state                            consent.ApprovalState
	}{
		{"an owner approves", "irc:bob", `{}`, "ann", "/approve ID", message.Group, "Approved: `shell.exec`", consent.ApprovalGranted},
		{"an owner denies", "irc:bob", `{}`, "ann", "/deny ID", message.Group, "Denied", consent.ApprovalDenied},
		{"a guest may not", "irc:bob", `{}`, "bob", "/approve ID", message.DM, "Only an owner", consent.ApprovalPending},
		{"an owner's own call", "irc:ann", `{}`, "ann", "/approve ID", message.DM, "You asked for this call yourself", consent.ApprovalPending},
		{"a call that cannot be shown", "irc:bob", `{"a":"` + strings.Repeat("x", 4000) + `"}`, "ann", "/approve ID", message.DM, "too long", consent.ApprovalPending},
		{"a call that cannot be shown is denied", "irc:bob", `{"a":"` + strings.Repeat("x", 4000) + `"}`, "ann", "/deny ID", message.DM, "Denied", consent.ApprovalDenied},
		{"no id", "irc:bob", `{}`, "ann", "/approve", message.DM, "Write the id", consent.ApprovalPending},
		{"a wrong id", "irc:bob", `{}`, "ann", "/approve XYZ", message.DM, "no such request", consent.ApprovalPending},
		{"a misspelt command stops nothing", "irc:bob", `{}`, "bob", "/stpo", message.DM, "Did you mean `/stop`? Nothing was done", consent.ApprovalPending},
		{"a misspelt command approves nothing", "irc:bob", `{}`, "ann", "/aprove ID", message.DM, "Did you mean `/approve`?", consent.ApprovalPending},
		{"a guest stops in private", "irc:bob", `{}`, "bob", "/stop", message.DM, "Stopping", consent.ApprovalPending},
		{"a guest stops in a group", "irc:bob", `{}`, "bob", "/stop", message.Group, "Only owners", consent.ApprovalPending},
		{"status for an owner", "irc:bob", `{}`, "ann", "/status", message.DM, "1 wait for an approval", consent.ApprovalPending},
		{"status for a guest tells of no requests", "irc:bob", `{}`, "bob", "/status", message.DM, "An answer is being written here.\n\n- Agent: helper\n- Model: demo/demo, tier default\n- Session: 3 h old, 7 turns\n- Queue: 2 wait, mode collect", consent.ApprovalPending},
		{"an owner halts", "irc:bob", `{}`, "ann", "/halt it runs wild", message.Group, "Everything is halted", consent.ApprovalPending},
		{"an owner resumes", "irc:bob", `{}`, "ann", "/resume", message.Group, "Everything continues", consent.ApprovalPending},
		{"a guest may not halt", "irc:bob", `{}`, "bob", "/halt", message.DM, "Only an owner", consent.ApprovalPending},
		{"help", "irc:bob", `{}`, "bob", "/help", message.DM, "/approve ID", consent.ApprovalPending},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.session = Session{Agent: "helper", Tier: "default", Model: "demo/demo", Turns: 7, Began: time.Now().Add(-3 * time.Hour), Queued: 2, Mode: "collect"}
			id := h.ask(c.requester, c.args)
			got := h.say("e1", c.who, strings.ReplaceAll(c.text, "ID", id), c.kind)
			if !strings.Contains(got, c.want) {
				t.Errorf("says %q, want %q in it", got, c.want)
			}
			if c.name == "status for a guest tells of no requests" && got != c.want {
				t.Errorf("says %q", got)
			}
			a, err := h.store.Approval(t.Context(), id)
			if err != nil || a.State != c.state {
				t.Errorf("the request is %s (%v), want %s", a.State, err, c.state)
			}
			if pending, err := h.store.PendingInbox(t.Context()); err != nil || len(pending) != 0 {
				t.Errorf("%d messages are left, %v", len(pending), err)
			}
		})
	}
}

func TestSecondAnswers(t *testing.T) {
	h := newHouse(t)
	id := h.ask("irc:bob", `{}`)
	for i, c := range []struct{ who, text, want string }{
		{"ann", "/approve ", "Approved"},
		{"ann", "/approve ", "Approved"}, // a double click
		{"eve", "/deny ", "already answered differently"},
	} {
		if got := h.say(string(rune('a'+i)), c.who, c.text+id, message.DM); !strings.Contains(got, c.want) {
			t.Errorf("%s of %s: %q", c.text, c.who, got)
		}
	}
}

// dyingStore fails once between the reply and the end of the message, as a crash would.
type dyingStore struct {
	Store
	died bool
}

func (s *dyingStore) SetInbox(ctx context.Context, id int64, state mailbox.InboxState, note string) error {
	if !s.died {
		s.died = true
		return errors.New("killed")
	}
	return s.Store.SetInbox(ctx, id, state, note)
}

func TestACommandThatIsCarriedOutTwiceAnswersOnce(t *testing.T) {
	h := newHouse(t)
	id := h.ask("irc:bob", `{}`)
	row := h.accept("e1", "ann", "/approve "+id, message.DM)
	h.service.cfg.Store = &dyingStore{Store: h.store}
	h.service.Work(t.Context(), "", []mailbox.InboxRow{row})
	if len(h.replied) != 1 {
		t.Errorf("%d replies, want 1", len(h.replied))
	}
	if out, err := h.store.UnsentOutbox(t.Context()); err != nil || len(out) != 1 {
		t.Errorf("%d replies in the outbox, %v", len(out), err)
	}
}

// A turn that is stopped says so itself, after its sender has heard that it is being stopped.
func TestStoppingIsSaidBeforeStopped(t *testing.T) {
	h := newHouse(t)
	if got := h.say("e1", "ann", "/stop", message.DM); got != "Stopping." {
		t.Errorf("says %q", got)
	}
	if want := []string{"irc:#busy after 1 replies"}; !slices.Equal(h.stopped, want) {
		t.Errorf("stopped %q, want %q", h.stopped, want)
	}
}
