package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/gateway/watch"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Conversations are the chats of the page and the terminal. Those of channels can be read, too.
type Conversations struct {
	Inbox interface {
		Accept(ctx context.Context, m message.Message) error
	}
	Events *watch.Hub
	Turns  interface {
		RunningIn(conversation message.ConversationKey) bool
		StopIn(conversation message.ConversationKey) bool
	}
	// Others are the hosts that share the store.
	Others interface {
		Stop(ctx context.Context, key store.OwnerKey) error
	}
	Approvals interface {
		Pending(ctx context.Context) ([]consent.Approval, error)
	}
	// Files knows whose files are kept.
	Files interface {
		Owns(sender message.SenderKey, digest string) bool
	}
	Keeper interface {
		DeleteConversation(ctx context.Context, scope, by string, stop bool) error
		PlanUndo(ctx context.Context, scope string, back int) (snapshot.Plan, error)
		Undo(ctx context.Context, scope string, r snapshot.Request) (snapshot.Undone, error)
		Fork(ctx context.Context, turns, left []turnlog.Turn, b turnlog.Branch) (snapshot.Copied, error)
	}
	Store Transcripts
}

// Transcripts reads turns and messages.
type Transcripts interface {
	History(ctx context.Context, channel, conversation string, turns int) ([]turnlog.Turn, error)
	FirstTurns(ctx context.Context, channel, conversation string, turns int) ([]turnlog.Turn, error)
	Steps(ctx context.Context, turn string) ([]turnlog.Step, error)
	Replies(ctx context.Context, turn string) ([]mailbox.OutboxRow, error)
	PendingInbox(ctx context.Context) ([]mailbox.InboxRow, error)
	// SessionsOn returns the latest sessions of some channel instances, latest first.
	SessionsOn(ctx context.Context, channels []string, limit int) ([]turnlog.Session, error)
	SessionsIn(ctx context.Context, scope string) ([]turnlog.Session, error)
	HistoryUpTo(ctx context.Context, channel, conversation, turn string, turns int) ([]turnlog.Turn, error)
	Session(ctx context.Context, key message.SessionKey) (turnlog.Session, error)
	SessionTurns(ctx context.Context, key message.SessionKey) ([]turnlog.Turn, error)
	LatestSummary(ctx context.Context, session message.SessionKey) (turnlog.Summary, error)
	turnlog.Talk
	turnlog.Own
}

var _ gateway.Conversations = Conversations{}

// Submit implements gateway.Conversations. Messages of plugins do not come this way.
func (c Conversations) Submit(ctx context.Context, m message.Message) error {
	if !config.BuiltinChannel(m.Channel) || m.Channel == message.ScheduleChannel {
		return fmt.Errorf("channel %q is not a frontend of this machine", m.Channel)
	}
	for _, a := range m.Attachments {
		if m.Channel == message.ConsoleChannel && !c.Files.Owns(m.SenderKey(), a.Handle) { // anybody may learn a digest
			return gateway.BadRequest(fmt.Sprintf("you have no file %.12s: send it again", a.Handle))
		}
	}
	return c.Inbox.Accept(ctx, m)
}

// BelongsTo implements gateway.Conversations.
func (c Conversations) BelongsTo(ctx context.Context, sender message.SenderKey, channel, conversation string) (bool, error) {
	return c.Store.BelongsTo(ctx, sender, message.NewConversationKey(channel, conversation))
}

// Watch implements gateway.Conversations.
func (c Conversations) Watch(channel, conversation string) ([]message.Event, <-chan message.Event, func()) {
	return c.Events.Watch(channel, conversation)
}

// Stop implements gateway.Conversations.
func (c Conversations) Stop(ctx context.Context, channel, conversation string) error {
	key := message.NewConversationKey(channel, conversation)
	if c.Turns.StopIn(key) {
		return nil
	}
	return c.Others.Stop(ctx, store.ConversationOwner(key))
}

// History implements gateway.Conversations: the turns of a conversation, then the messages that no turn has taken yet.
func (c Conversations) History(ctx context.Context, channel, conversation string, limit int) ([]gateway.Entry, error) {
	turns, err := c.Store.History(ctx, channel, conversation, limit)
	if err != nil {
		return nil, err
	}
	waiting, err := c.Approvals.Pending(ctx)
	if err != nil {
		return nil, err
	}
	var out []gateway.Entry
	taken := map[int64]bool{}
	for _, t := range turns {
		pieces, err := c.describe(ctx, t)
		if err != nil {
			return nil, err
		}
		out = append(out, entries(t, pieces, waiting)...)
		for _, id := range t.Inbox {
			taken[id] = true
		}
	}
	pending, err := c.Store.PendingInbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range pending {
		if m := r.Message; m.Channel == channel && m.Conversation.ID == conversation && !taken[r.ID] {
			out = append(out, gateway.Entry{From: gateway.FromUser, Text: m.Text, Time: m.ReceivedAt, Key: m.EventID, Files: m.FileNames()})
		}
	}
	return out[max(0, len(out)-limit):], nil
}

// describe reads the pieces of a turn.
func (c Conversations) describe(ctx context.Context, t turnlog.Turn) ([]transcript.Piece, error) {
	steps, err := c.Store.Steps(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	var reply string
	if t.State == turnlog.TurnFailed || t.State == turnlog.TurnStopped {
		replies, err := c.Store.Replies(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		for _, r := range replies {
			if transcript.IsAnswer(t.ID, r.Reply) {
				reply = r.Reply.Text
			}
		}
	}
	return transcript.Describe(t, steps, reply)
}

// entries returns the pieces of a turn as the gateway shows them. A turn waits for a person about one call at a time, so a pending request
// belongs to the first call without a result, and is shown with that call only. Other calls that have not begun are left out: they are shown
// when they begin, as to somebody who watches.
func entries(t turnlog.Turn, pieces []transcript.Piece, waiting []consent.Approval) []gateway.Entry {
	var out []gateway.Entry
	next := true
	for _, p := range pieces {
		e := entry(t, p)
		if p.Call != nil && !p.Done {
			asked := next && asks(e.Call, t, waiting)
			next = false
			if !asked && p.Call.Decision == "" {
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// asks makes a call show the request about it that waits for a person, and reports whether there is one.
func asks(c *gateway.ToolCall, t turnlog.Turn, waiting []consent.Approval) bool {
	i := slices.IndexFunc(waiting, func(a consent.Approval) bool { return a.Turn == t.ID && a.Tool == c.Tool })
	if i < 0 {
		return false
	}
	a := waiting[i]
	c.Approval, c.Decision, c.Args, c.Where, c.Reasons = a.ID, "ask", a.Args, a.Where, a.Reasons
	return true
}

func entry(t turnlog.Turn, p transcript.Piece) gateway.Entry {
	e := gateway.Entry{Agent: t.Agent, Turn: t.ID, Text: p.Text, Time: p.At, Key: p.Key, IsError: p.IsError, Files: p.Files}
	switch {
	case p.Said:
		e.From = gateway.FromUser
	case p.Call == nil:
		e.From = gateway.FromAgent
	default:
		e.From = gateway.FromTool
		c := p.Call
		e.Call = &gateway.ToolCall{
			ID: c.Call, Tool: c.Tool, Args: c.Args, Decision: c.Decision, Where: c.Where, Reasons: c.Reasons, Done: p.Done,
		}
	}
	return e
}

// listedConversations bounds the list of conversations.
const listedConversations = 10_000

// Conversations implements gateway.Conversations. It reads as many sessions as the page takes, and titles and turns of what is on it.
func (c Conversations) Conversations(ctx context.Context, f gateway.ConversationFilter) (page gateway.Page[gateway.ConversationInfo], err error) {
	for sessions := sessionsAtOnce; ; sessions *= 4 {
		list, all, err := c.listed(ctx, f, sessions)
		if err != nil {
			return page, err
		}
		if page = gateway.ConversationPage(list, f); all || page.Next != "" {
			break
		}
	}
	for i := range page.Items {
		v := &page.Items[i]
		if f.Of != "" { // the turns of others are not counted
			v.Title, v.Running = c.title(ctx, v.Channel, v.ID), c.Turns.RunningIn(message.NewConversationKey(v.Channel, v.ID))
		} else if *v, err = c.Conversation(ctx, v.Channel, v.ID); err != nil && !errors.Is(err, store.ErrNotFound) { // deleted meanwhile
			return page, err
		}
	}
	return page, nil
}

// Conversation implements gateway.Conversations.
func (c Conversations) Conversation(ctx context.Context, channel, id string) (v gateway.ConversationInfo, err error) {
	key := message.NewConversationKey(channel, id)
	sessions, err := c.Store.SessionsIn(ctx, string(key))
	if err != nil {
		return v, err
	}
	v = gateway.ConversationInfo{Channel: channel, ID: id, Title: c.title(ctx, channel, id), Running: c.Turns.RunningIn(key), Program: program(channel)}
	for _, s := range sessions {
		v.Turns += s.Turns
		if !s.Last.Before(v.Last) {
			v.Agent, v.Last = s.Agent, s.Last
		}
	}
	if len(sessions) == 0 || !config.BuiltinChannel(channel) {
		return v, store.NotFound(string(key) + " is not a conversation of this machine")
	}
	return v, nil
}

const sessionsAtOnce = 500

// listed returns the conversations of the latest sessions, and whether there are no others.
func (c Conversations) listed(ctx context.Context, f gateway.ConversationFilter, most int) (out []gateway.ConversationInfo, all bool, err error) {
	if f.Of != "" {
		list, err := c.Store.ConversationsOf(ctx, f.Of, listedConversations)
		for _, v := range list {
			if f.From.Has(program(v.Channel)) {
				out = append(out, gateway.ConversationInfo{Channel: v.Channel, ID: v.ID, Agent: v.Agent, Last: v.Last, Turns: v.Turns, Program: program(v.Channel)})
			}
		}
		return out, true, err
	}
	sessions, err := c.Store.SessionsOn(ctx, slices.DeleteFunc(config.BuiltinChannels(), func(channel string) bool { return !f.From.Has(program(channel)) }), most)
	known := map[string]bool{} // by conversation scope
	for _, s := range sessions {
		scope := s.Key.Parse().Scope
		channel, id, _ := message.ConversationKey(scope).Cut()
		if api.Once(channel, id, s.Turns) { // API clients make many of these and do not continue them
			continue
		}
		if !known[scope] && len(out) < listedConversations {
			known[scope] = true
			out = append(out, gateway.ConversationInfo{Channel: channel, ID: id, Agent: s.Agent, Last: s.Last, Program: program(channel)})
		}
	}
	return out, len(sessions) < most || len(out) == listedConversations, err
}

// program reports whether a channel instance is that of programs: API clients and schedules.
func program(channel string) bool {
	return channel == api.OpenAI || channel == api.MCP || channel == message.ScheduleChannel
}

// DeleteConversation implements gateway.Conversations for the frontends of this machine.
func (c Conversations) DeleteConversation(ctx context.Context, channel, conversation, by string, stop bool) error {
	scope := channel + ":" + conversation
	if !config.BuiltinChannel(channel) {
		return store.NotFound(scope + " is not a conversation of this machine: write /delete in it")
	}
	return c.Keeper.DeleteConversation(ctx, scope, by, stop)
}

// PlanUndo implements gateway.Conversations for the frontends of this machine, whose conversations are scopes of their own.
func (c Conversations) PlanUndo(ctx context.Context, channel, conversation string, back int) (snapshot.Plan, error) {
	return c.Keeper.PlanUndo(ctx, channel+":"+conversation, back)
}

// Undo implements gateway.Conversations.
func (c Conversations) Undo(ctx context.Context, channel, conversation string, u gateway.Undo, by gateway.Caller) (snapshot.Plan, error) {
	done, err := c.Keeper.Undo(ctx, channel+":"+conversation, snapshot.Request{Code: u.Code, Overwrite: u.Overwrite, By: by.Sender, Name: by.Sender.ID()})
	return done.Plan, err
}
