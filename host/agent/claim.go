package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// Item is queued work: a message to answer, or a turn that an earlier process left running.
type Item struct {
	Row  mailbox.InboxRow
	Turn *turnlog.Turn
	Rows []mailbox.InboxRow // of Turn
	// Order is true for a command that must not overtake earlier messages.
	Order bool
	// Alone, if not nil, is a function of the host that must run while no turn runs in the scope. It is not durable.
	Alone func()
	// Look is true for what is no work itself, but has the host claim the conversation of Row, and look for work in it.
	Look    bool
	holding *holding // in which the item was queued, if other hosts share the store
	// released means that a turn had taken the message and was stopped in favor of a later one.
	released bool
	waited   []journal.Decision // to be recorded with the turn that had to wait for tools
}

// Recover lists the unfinished work in the store, in order: running turns first, then messages that no turn has taken.
func Recover(ctx context.Context, s Store) ([]Item, error) {
	turns, err := s.RunningTurns(ctx)
	if err != nil {
		return nil, fmt.Errorf("list running turns: %w", err)
	}
	rows, err := s.PendingInbox(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	byID := make(map[int64]mailbox.InboxRow, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	var items []Item
	for _, t := range turns {
		if t.Parent != "" && !t.Background && slices.ContainsFunc(turns, func(p turnlog.Turn) bool { return p.ID == t.Parent }) {
			continue // its parent takes it up
		}
		it := Item{Turn: &t}
		for _, id := range t.Inbox {
			if r, ok := byID[id]; ok {
				it.Rows = append(it.Rows, r)
				delete(byID, id)
			}
		}
		items = append(items, it)
	}
	for _, r := range rows {
		if _, free := byID[r.ID]; free {
			items = append(items, Item{Row: r})
		}
	}
	return items, nil
}

// Key returns the key of the conversation that the item comes from.
func (it Item) Key() string {
	if it.Turn != nil && it.Turn.Parent != "" {
		return childKey + it.Turn.ID
	}
	if it.Turn != nil {
		return string(it.Turn.ConversationKey())
	}
	return string(it.Row.Message.ConversationKey())
}

// Work answers the first of the items queued in a scope, together with the following ones that the same answer can serve, and returns
// the rest. It is the work function of the keyed queue.
func (r *Runner) Work(ctx context.Context, key string, items []Item) (rest []Item) {
	if items[0].Alone != nil {
		items[0].Alone()
		return items[1:]
	}
	if r.cfg.Ownership.Shared() {
		return r.owned(ctx, key, items, func(ctx context.Context, items []Item) []Item { return r.workOn(ctx, key, items) })
	}
	return r.workOn(ctx, key, items)
}

func (r *Runner) workOn(ctx context.Context, key string, items []Item) (rest []Item) {
	if items[0].Turn == nil && !r.awake(ctx) {
		return nil
	}
	for w := (toolWait{runner: r, scope: key}); ; {
		var unequipped string
		if items, unequipped = r.workOnce(ctx, key, items, &w); unequipped == "" {
			return items
		}
		if !w.wait(ctx, unequipped) {
			return nil
		}
	}
}

// workOnce is like Work, except that it returns the agent's name, and leaves all items but dropped ones, if the agent's tools are not there
// yet.
func (r *Runner) workOnce(ctx context.Context, key string, items []Item, w *toolWait) (rest []Item, unequipped string) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, ""
	}
	defer func() {
		if p := recover(); p != nil {
			r.giveUp(ctx, items[0], p)
			rest, unequipped = items[1:], ""
		}
	}()
	gen, policies := r.cfg.Generations.InForce()
	defer policies.Release()
	at, err := r.scopeOf(ctx, gen, key, items[0])
	switch {
	case err != nil:
		if ctx.Err() == nil {
			r.cfg.Log.Error("cannot read the state of a conversation; trying again", "scope", key, "error", err)
			pause(ctx)
		}
		return items, ""
	case items[0].Turn != nil:
		if name := items[0].Turn.Agent; len(gen.Late[name]) > 0 {
			return items, name
		}
		items[0].waited = w.over(gen)
		return slices.Concat(r.resume(ctx, gen, policies, at, items[0], items[1:]), items[1:]), ""
	case items[0].Order:
		r.order(ctx, gen, key, items[0].Row)
		return items[1:], ""
	}
	c := r.claim(ctx, gen, policies, at, items)
	if len(c.rows) > 0 && len(gen.Late[c.agent]) > 0 {
		return items[c.taken-len(c.rows):], c.agent // the items before them were dropped
	}
	var released []Item
	if len(c.rows) > 0 {
		c.decisions = append(c.decisions, w.over(gen)...)
		released = r.begin(ctx, gen, policies, at, c, items[c.taken:])
	}
	return slices.Concat(released, items[c.taken:]), ""
}

// order carries out a command, if its sender is still admitted.
func (r *Runner) order(ctx context.Context, gen *Generation, scope string, row mailbox.InboxRow) {
	if why := gen.Admission.Refusal(row.Message); why != "" {
		r.drop(ctx, row, why, nil)
		return
	}
	r.cfg.Orders.Order(ctx, scope, row)
}

// giveUp settles an item whose work panicked outside the turn's loop. Left unsettled, it would crash this process and every later one
// at its start.
func (r *Runner) giveUp(ctx context.Context, it Item, cause any) {
	r.cfg.Log.Error("panic", "conversation", it.Key(), "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if it.Turn != nil && it.Turn.Parent != "" {
		r.abandon(ctx, *it.Turn, errBroken)
	}
	rows := it.Rows
	if it.Turn == nil {
		rows = []mailbox.InboxRow{it.Row}
	}
	for _, row := range rows {
		err := r.cfg.Store.SetInbox(context.WithoutCancel(ctx), row.ID, mailbox.InboxFailed, "the host failed on this message; see its log")
		if err != nil && !store.Settled(err) {
			r.cfg.Log.Error("cannot give up on message", "inbox", row.ID, "error", err)
		}
	}
}

// claim is the routed head of a conversation's queue.
type claim struct {
	taken     int // items used up, including dropped ones
	rows      []mailbox.InboxRow
	agent     string
	decisions []journal.Decision
	fresh     bool // some rows do not come from a stopped turn
}

// claim routes messages until one belongs to another sender, conversation or agent, or the queue mode separates them. Only messages of
// one sender are joined, because a turn acts with the rights of its sender.
func (r *Runner) claim(ctx context.Context, gen *Generation, policies Policies, at turnlog.Scope, items []Item) claim {
	var c claim
	for _, it := range items {
		if it.Turn != nil || it.Order || it.Alone != nil || len(c.rows) > 0 && !it.follows(c.rows[0].Message) {
			break
		}
		agent, why, decisions := r.route(ctx, gen, policies, at, it.Row.Message)
		switch {
		case ctx.Err() != nil:
			return claim{} // interrupted policies fail closed; the next process asks again
		case agent == "":
			if len(c.rows) > 0 {
				return c // dropped by the next call
			}
			if !r.drop(ctx, it.Row, why, decisions) {
				pause(ctx) // the store failed; the message stays queued
				return c
			}
			c.taken++
			continue
		case len(c.rows) > 0 && agent != c.agent:
			return c
		}
		c.agent = agent
		c.rows = append(c.rows, it.Row)
		c.decisions = append(c.decisions, decisions...)
		c.fresh = c.fresh || !it.released
		c.taken++
		if gen.queue(gen.Agents[agent], it.Row.Message.Channel) == QueueFollowup {
			break
		}
	}
	return c
}

// joins reports whether one answer can serve both messages. A direct tool call and a question from an API client each wait for an
// answer of their own.
func joins(first, next message.Message) bool {
	if route.Door(first.Channel) != route.FrontendChannel && !route.Local(first.Channel) {
		return false
	}
	return next.Sender.Equal(first.Sender) && next.Agent == first.Agent && first.Call == nil && next.Call == nil
}

// route returns the agent that answers a message, or why none does. The message was admitted when it came, but may since have waited
// through a restart or a change of the configuration, so admission is checked again. Every frontend and `flynn route test` use the same
// function. A panic in it fails only this message.
func (r *Runner) route(ctx context.Context, gen *Generation, policies Policies, at turnlog.Scope, m message.Message) (
	agent, why string, _ []journal.Decision,
) {
	defer recovered(r.cfg.Log, "event", m.EventID, func() { agent, why = "", errBroken.Error() })
	if why := gen.Admission.Refusal(m); why != "" {
		return "", why, nil
	}
	now := r.cfg.Now()
	d, records := r.decide(ctx, gen, policies, at, m, now)
	decisions := []journal.Decision{{
		At: now, Kind: "route_table", Policy: "table", Answer: d.Static.Agent,
		Reason: strings.TrimSpace(fmt.Sprintf("%s %s", d.Static.Tier, d.Static.Rule)),
		Digest: fmt.Sprintf("generation %d", gen.Number),
	}}
	return d.Agent, unanswered(d), append(decisions, decisionlog.Rows(now, records)...)
}

// decide picks the agent that answers a message in a conversation scope.
func (r *Runner) decide(ctx context.Context, gen *Generation, policies Policies, at turnlog.Scope, m message.Message, now time.Time) (
	route.Decision, []policy.Record,
) {
	facts := policy.RouteFacts{Facts: route.Facts(m, gen.Roles, now), Agents: gen.Roles.Agents(m, gen.Names)}
	return route.Decide(ctx, gen.Table.With(at.Agent), sessionFacts{policies, r, at}, facts)
}

// Supposed is the state of a conversation that JudgeRoute takes for granted.
type Supposed struct {
	Agent   string        // that people have chosen; empty is the one that they have
	Session *policy.Facts // whose labels and usage a session has; nil is the session as it is
}

// JudgeRoute returns which agent would answer a message now, given what people have chosen in its conversation and what the session has
// touched and used, or what is supposed of them, as far as it would be admitted. It records nothing.
func (r *Runner) JudgeRoute(
	ctx context.Context, gen *Generation, policies Policies, m message.Message, s Supposed,
) (route.Decision, []policy.Record, error) {
	at, err := r.cfg.Store.Scope(ctx, r.cfg.Generations.Scope(m))
	if err != nil {
		return route.Decision{}, nil, fmt.Errorf("read the state of the conversation: %w", err)
	}
	at.Agent = cmp.Or(s.Agent, at.Agent)
	if s.Session != nil {
		policies = supposedFacts{policies, *s.Session}
	}
	d, records := r.decide(ctx, gen, policies, at, m, r.cfg.Now())
	return d, records, nil
}

// unanswered returns why no agent answers.
func unanswered(d route.Decision) string {
	switch {
	case d.Agent != "":
		return ""
	case d.Policy != "":
		return strings.TrimSpace("policy " + d.Policy + ": " + d.Reason)
	}
	return "no rule names an agent for this sender"
}

// drop ends a message that no agent answers, and records the decisions.
func (r *Runner) drop(ctx context.Context, row mailbox.InboxRow, why string, decisions []journal.Decision) bool {
	err := r.cfg.Store.SetInbox(ctx, row.ID, mailbox.InboxDropped, why)
	for i := range decisions {
		decisions[i].Turn = mailbox.MessageID(row.ID) // the message has no turn
	}
	if err == nil {
		err = r.cfg.Store.AddDecisions(ctx, decisions)
	}
	switch {
	case err == nil:
		r.cfg.Log.Info("message is not answered", "channel", row.Message.Channel, "sender", row.Message.Sender.ID, "inbox", row.ID, "why", why)
	case ctx.Err() == nil && !store.Settled(err):
		r.cfg.Log.Error("cannot drop message", "inbox", row.ID, "error", err)
	}
	return err == nil || store.Settled(err)
}

// recovered is deferred to recover from a panic: it logs the panic and calls then.
func recovered(log *slog.Logger, key, id string, then func()) {
	if p := recover(); p != nil {
		log.Error("panic", key, id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		then()
	}
}

// pause waits before a retry.
func pause(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}
