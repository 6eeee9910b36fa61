package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Store is the part of the store that a Service uses.
type Store interface {
	AddReplies(ctx context.Context, turn string, replies []message.Reply) (fresh []message.Reply, err error)
	SetInbox(ctx context.Context, id int64, state mailbox.InboxState, note string) error
	Approval(ctx context.Context, id string) (consent.Approval, error)
	SearchNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
	ForgetNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
	Scope(ctx context.Context, key string) (turnlog.Scope, error)
	Settle(ctx context.Context, s turnlog.Settlement) error
	Grant(ctx context.Context, id string) (consent.Grant, error)
}

// Approvals decides requests; *approval.Service implements it.
type Approvals interface {
	Decide(ctx context.Context, id string, grant bool, decider string) error
	Grant(ctx context.Context, id string, l approval.Lease, decider string) error
	EndSessions(ctx context.Context, scope, by string) error
	Pending(ctx context.Context) ([]consent.Approval, error)
	Offer(a consent.Approval) approval.Offer
}

var _ Approvals = (*approval.Service)(nil)

// Rules are the rules of the configuration and the pairings in force.
type Rules interface {
	// Refusal returns why a message is not answered, or "". The message may have waited since its admission.
	Refusal(m message.Message) (why string)
	Role(channel string, senderKey message.SenderKey) string
	// Proved reports whether the platform proves who a sender is.
	Proved(channel string, senderKey message.SenderKey) bool
	// Scope returns the key of the conversation scope of a message.
	Scope(m message.Message) string
	// Persons returns the sender keys of one person, the given one first.
	Persons(senderKey message.SenderKey) []message.SenderKey
}

// Turns are the running turns; *agent.Runner implements it.
type Turns interface {
	// Stopper returns a function that ends the running turn of a scope, or nil if none runs.
	Stopper(scope string, said time.Time) (end func())
	// Untold removes the notes for the next turn of a scope, and returns their rows.
	Untold(scope string) []int64
}

// Scopes are the conversation scopes in which people are answered.
type Scopes interface {
	// Look returns the session of a scope, from the view of the sender of a message.
	Look(ctx context.Context, scope string, m message.Message) (Session, error)
	// Compact summarizes the older turns of the session that a message would continue in a scope.
	Compact(ctx context.Context, at turnlog.Scope, row mailbox.InboxRow) (Compaction, error)
}

// Sessions are the sessions of conversation scopes; *session.Keeper implements it.
type Sessions interface {
	// In returns the sessions of a scope, of every agent and epoch, and whether a delegated task still runs there.
	In(ctx context.Context, scope string) (list []turnlog.Session, busy bool, err error)
	// Deleted removes what deleted sessions have outside the store.
	Deleted(ctx context.Context, keys []message.SessionKey)
	// PlanUndo returns what an undo of changed files in a scope would change, and Undo does it; store.ErrConflict while something runs there.
	PlanUndo(ctx context.Context, scope string, back int) (snapshot.Plan, error)
	Undo(ctx context.Context, scope string, r snapshot.Request) (snapshot.Undone, error)
	// ForkAll makes a new conversation of all that was said in one, with its files.
	ForkAll(ctx context.Context, channel, conversation string, b turnlog.Branch) (snapshot.Copied, error)
}

// Switch is the kill switch; *halt.Switch implements it.
type Switch interface {
	// Set turns the switch on or off.
	Set(ctx context.Context, on bool, reason, by string) error
	// Why returns why everything is halted, or "".
	Why() string
}

// Ownership says which conversations this host works for, if others share its store; *cluster.Member implements it.
type Ownership interface {
	// Enter claims a key for some work; it returns store.ErrOwned if another host owns the key.
	Enter(ctx context.Context, key store.OwnerKey, recover func(context.Context) error) (work context.Context, done func(), err error)
}

// Outbox sends committed replies; *channel.Outbox implements it.
type Outbox interface {
	Push(turn string, r message.Reply)
}

// Watchers watch conversations; *watch.Hub implements it.
type Watchers interface {
	// Show shows events in a conversation, whichever host owns it. It returns within about a second.
	Show(ctx context.Context, channel, id string, events ...message.Event)
}

// Config configures a Service. All fields are required.
type Config struct {
	Store     Store
	Approvals Approvals
	Elevated  Elevator
	Pairings  Pairings
	Console   Console
	Rules     Rules
	Turns     Turns
	Scopes    Scopes
	Sessions  Sessions
	Switch    Switch
	Outbox    Outbox
	Ownership Ownership
	Watchers  Watchers
	Now       func() time.Time
	Log       *slog.Logger
}

// Service carries out commands.
type Service struct {
	cfg   Config
	queue *keyed.Group[mailbox.InboxRow] // by conversation
	shown sync.Map                       // ids of requests that /show has shown
}

// maxConversations bounds the conversations with commands at the same time.
const maxConversations = 1 << 16

// New returns a Service.
func New(cfg Config) *Service {
	d := &Service{cfg: cfg}
	d.queue = keyed.New(maxConversations, d.Work)
	return d
}

// Run carries out the commands that Take has queued, until ctx ends.
func (d *Service) Run(ctx context.Context) error { return d.queue.Run(ctx) }

// Take queues a message if it is a command that does not wait for the running turn. It reports whether it has, and whether the message is a
// command for Order.
func (d *Service) Take(key string, row mailbox.InboxRow) (taken, order bool) {
	c, ok := Parse(row.Message.Text)
	if !ok || c.Queued() {
		return false, ok
	}
	d.queue.Push(key, row)
	return true, false
}

// Work carries out the first of the commands of a conversation.
//
// The reply is committed under a key derived from the message, and then the message is marked as done: if the host dies in between, the
// command is carried out again, which changes nothing, and its reply is there already.
func (d *Service) Work(ctx context.Context, _ string, rows []mailbox.InboxRow) []mailbox.InboxRow {
	row := rows[0]
	for {
		err := d.carryOut(ctx, row)
		switch {
		case err == nil, store.Settled(err), errors.Is(err, store.ErrOwned): // the owner has been told
			return rows[1:]
		case ctx.Err() != nil:
			return nil
		}
		d.cfg.Log.Error("cannot carry out command; trying again", "inbox", row.ID, "error", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *Service) carryOut(ctx context.Context, row mailbox.InboxRow) error {
	m := row.Message
	c, ok := Parse(m.Text)
	if !ok { // it was checked before it was pushed
		return fmt.Errorf("inbox row %d is not a command", row.ID)
	}
	if why := d.cfg.Rules.Refusal(m); why != "" {
		return d.cfg.Store.SetInbox(ctx, row.ID, mailbox.InboxDropped, why)
	}
	if c.ofRunning() {
		work, done, err := d.cfg.Ownership.Enter(ctx, store.ConversationOwner(m.ConversationKey()), nil)
		if err != nil {
			return err
		}
		defer done()
		ctx = work
	}
	var text string
	var buttons []message.Button
	var err error
	after := func() {}
	switch c.Name {
	case "stop": // its answer comes before the one of the stopped turn
		text, after = d.stop(m)
	case "undo":
		text, buttons, err = d.undo(ctx, m, c)
	case "fork":
		text, err = d.fork(ctx, row)
	default:
		text, err = d.answer(ctx, m, c)
	}
	if err != nil {
		return err
	}
	turn, reply := reply(row, text)
	reply.Buttons = buttons
	fresh, err := d.cfg.Store.AddReplies(ctx, turn, []message.Reply{reply})
	if err != nil {
		return err
	}
	for _, r := range fresh {
		seen := r.Text
		if c.Name == "console" {
			seen = linkSent
		}
		d.show(ctx, m, turn, r, seen)
	}
	after()
	return d.cfg.Store.SetInbox(ctx, row.ID, mailbox.InboxDone, "command "+c.Name)
}

// reply returns the answer to a command, with a key derived from its message.
func reply(row mailbox.InboxRow, text string) (turn string, r message.Reply) {
	turn, m := mailbox.CommandTurn(row.ID), row.Message
	return turn, message.Reply{Key: turn + "/0", Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID, Text: text}
}

// show sends a committed reply. Watchers see it as a short turn, with the text seen.
func (d *Service) show(ctx context.Context, m message.Message, turn string, r message.Reply, seen string) {
	of := message.Event{Channel: m.Channel, Conversation: m.Conversation.ID, Turn: turn}
	begun, said, done := of, of, of
	begun.Kind, begun.Answers = message.TurnStarted, []string{m.EventID}
	said.Kind, said.Text, said.Key = message.ReplyReady, seen, r.Key
	done.Kind = message.TurnDone
	d.cfg.Watchers.Show(ctx, m.Channel, m.Conversation.ID, begun, said, done)
	d.cfg.Outbox.Push(turn, r)
}

// answer carries out a command and returns the text of the reply. Its errors are those of the store.
func (d *Service) answer(ctx context.Context, m message.Message, c Command) (string, error) {
	switch c.Name {
	case "":
		return fmt.Sprintf("Unknown command. Did you mean `/%s`? Nothing was done. To send the text to the agent, put a word before it.", c.Near), nil
	case "approve", "deny":
		return d.decide(ctx, m, c)
	case "show":
		return d.showCall(ctx, m, c)
	case "elevated":
		return d.elevate(ctx, m, c.Arg)
	case "pair":
		return d.pair(ctx, m, c)
	case "console":
		return d.console(ctx, m)
	case "status":
		return d.status(ctx, m)
	case "forget":
		return d.forget(ctx, m, c)
	case "halt", "resume":
		return d.halt(ctx, m, c)
	}
	return help, nil
}

const help = "Commands of the host:\n\n" +
	"- `/approve ID`, `/deny ID`, `/show ID`: answer a request for approval, or show all of it (owners)\n" +
	"- `/approve ID session`, `/approve ID always 30d`: allow it again in this conversation, or until then; " +
	"`/approve ID always grep -rn * docs` covers the commands that fit (owners)\n" +
	"- `/elevated ask 15m`, `/elevated off`: let tools leave the sandbox for a time, if the configuration lets you\n" +
	"- `/pair CODE`, `/pair deny CODE`: let the person with this code in, or not (owners)\n" +
	"- `/stop`: stop the running answer\n" +
	"- `/status`: what runs here, who answers, and what waits for an approval\n" +
	"- `/new`: start a new session, without the earlier conversation (in a group: owners and members)\n" +
	"- `/agent`, `/agent NAME`, `/agent default`: show who answers here, or choose another agent\n" +
	"- `/model`, `/model TIER`, `/model default`: the same for the agent's model\n" +
	"- `/compact`: summarize the older part of this conversation, to make room for more\n" +
	"- `/undo`, `/undo 2`: undo what the last answers changed in the agent's files, after a question (in a group: owners and members)\n" +
	"- `/fork`: go on in a new conversation of your own, with a copy of the agent's files (in a group: owners)\n" +
	"- `/delete`: delete this conversation for good, after a question (in a group: owners)\n" +
	"- `/forget`, `/forget KEY`, `/forget all`: show what is remembered about you, or delete it\n" +
	"- `/console`: a link with which you sign in at the console (in a private chat)\n" +
	"- `/halt [REASON]`, `/resume`: halt everything everywhere, and continue (owners)\n" +
	"- `/help`: this list"

func (d *Service) owner(m message.Message) bool {
	return d.cfg.Rules.Role(m.Channel, m.SenderKey()) == route.Owner
}

// decide answers a request for approval.
func (d *Service) decide(ctx context.Context, m message.Message, c Command) (string, error) {
	grant := c.Name == "approve"
	switch {
	case !d.owner(m):
		return "Only an owner can answer requests for approval.", nil
	case c.Name == "deny" && strings.Contains(c.Arg, " "):
		return "Write only the id of the request: `/deny ID`.", nil
	}
	id, lease, err := readLease(c.Arg)
	if err != nil {
		return fmt.Sprintf("Write the id of the request: `/%s ID`; %s. `/status` lists what waits.", c.Name, err), nil
	}
	a, err := d.cfg.Store.Approval(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "There is no such request. `/status` lists what waits.", nil
	case err != nil:
		return "", err
	case grant && !approval.Showable(a):
		return fmt.Sprintf("This call is too long to be shown here. Decide on the web page, or see `flynn approvals show %s`.", a.ID), nil
	case grant && !approval.Brief(a) && !d.wasShown(a.ID):
		return fmt.Sprintf("The notice did not show all of this call. `/show %s` does; then approve it.", a.ID), nil
	}
	if grant {
		err = d.cfg.Approvals.Grant(ctx, a.ID, lease, string(m.SenderKey()))
	} else {
		err = d.cfg.Approvals.Decide(ctx, a.ID, false, string(m.SenderKey()))
	}
	if err == nil {
		d.shown.Delete(a.ID)
	}
	switch {
	case err == nil && grant && lease.Scope != "":
		return d.leased(ctx, a.ID)
	case err == nil && grant:
		return fmt.Sprintf("Approved: `%s` (request %s).", a.Tool, a.ID), nil
	case err == nil:
		return fmt.Sprintf("Denied: `%s` (request %s).", a.Tool, a.ID), nil
	case errors.Is(err, approval.ErrSelf):
		return "You asked for this call yourself; another owner has to approve it, or you at the web page or terminal. " +
			"`approvals.self = true` lets owners approve their own.", nil
	case errors.Is(err, approval.ErrExpired):
		return "This request has expired.", nil
	case errors.Is(err, approval.ErrGone):
		return "The call that asked for this has ended: nothing runs.", nil
	case errors.Is(err, approval.ErrNoLease):
		return fmt.Sprintf("%s. `/approve %s` allows only this call.", unwrapped(err), a.ID), nil
	case errors.Is(err, approval.ErrDecided):
		return "This request was already answered differently.", nil
	}
	return "", err
}

// showCall shows the whole request, so that it can be approved here.
func (d *Service) showCall(ctx context.Context, m message.Message, c Command) (string, error) {
	if !d.owner(m) {
		return "Only an owner can look at requests for approval.", nil
	}
	a, err := d.cfg.Store.Approval(ctx, strings.TrimSpace(c.Arg))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "There is no such request. `/status` lists what waits.", nil
	case err != nil:
		return "", err
	case a.State != consent.ApprovalPending:
		return "This request was already answered.", nil
	case !approval.Showable(a):
		return fmt.Sprintf("This call is too long to be shown here. See the web page or `flynn approvals show %s`.", a.ID), nil
	}
	d.shown.Store(a.ID, true)
	return approval.Details(a, d.cfg.Approvals.Offer(a), d.cfg.Now()), nil
}

func (d *Service) wasShown(id string) bool {
	_, was := d.shown.Load(id)
	return was
}

// leased says what a new grant covers.
func (d *Service) leased(ctx context.Context, id string) (string, error) {
	g, err := d.cfg.Store.Grant(ctx, id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Approved, and allowed from now on: %s. `flynn approvals revoke %s` ends it.", approval.Covers(g), g.ID), nil
}

// unwrapped returns why a grant is not possible, as a sentence without its full stop.
func unwrapped(err error) string {
	_, why, _ := strings.Cut(err.Error(), approval.ErrNoLease.Error()+": ")
	return "This call cannot be allowed like that: " + why
}

// stop returns the answer to /stop and a function that ends the running turn. In a group only owners and members may stop it: otherwise
// anybody could silence everybody.
func (d *Service) stop(m message.Message) (text string, end func()) {
	if m.Conversation.Kind != message.DM && d.cfg.Rules.Role(m.Channel, m.SenderKey()) == route.Guest {
		return "Only owners and members can stop an answer in a group.", func() {}
	}
	if end := d.cfg.Turns.Stopper(d.cfg.Rules.Scope(m), m.ReceivedAt); end != nil {
		return "Stopping.", end
	}
	return "Nothing runs here.", func() {}
}

// maxListed bounds the requests that a status lists.
const maxListed = 10

func (d *Service) status(ctx context.Context, m message.Message) (string, error) {
	s, err := d.cfg.Scopes.Look(ctx, d.cfg.Rules.Scope(m), m)
	if err != nil {
		return "", err
	}
	text := "Nothing runs here."
	if s.Running {
		text = "An answer is being written here."
	}
	if why := d.cfg.Switch.Why(); why != "" {
		text = "Everything is halted (" + why + "). " + text
	}
	banner, err := d.banner(ctx, m.ConversationKey())
	if err != nil {
		return "", err
	}
	text = banner + text + "\n" + d.describe(s)
	if !d.owner(m) {
		return text, nil
	}
	waiting, err := d.cfg.Approvals.Pending(ctx)
	if err != nil {
		return "", err
	}
	if len(waiting) == 0 {
		return text + "\n\nNo request waits for an approval.", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%d wait for an approval:\n", text, len(waiting))
	for _, a := range waiting[:min(len(waiting), maxListed)] {
		fmt.Fprintf(&b, "\n- %s: `%s` of agent %s, %d min left", a.ID, a.Tool, a.Agent, int(a.Expires.Sub(d.cfg.Now()).Minutes()))
	}
	return b.String(), nil
}
