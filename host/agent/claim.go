package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// Item is work of one conversation: a message to answer, or a turn that an earlier process left running.
type Item struct {
	Row  store.InboxRow
	Turn *store.Turn
	Rows []store.InboxRow // of Turn
}

// Recover lists the work that the store still holds, in order: turns that were running first, then
// messages that no turn has taken.
func Recover(ctx context.Context, s Store) ([]Item, error) {
	turns, err := s.RunningTurns(ctx)
	if err != nil {
		return nil, fmt.Errorf("list running turns: %w", err)
	}
	rows, err := s.PendingInbox(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	byID := make(map[int64]store.InboxRow, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	var items []Item
	for _, t := range turns {
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

// Key is the conversation that the item belongs to.
func (it Item) Key() string {
	if it.Turn != nil {
		return it.Turn.Channel + ":" + it.Turn.Conversation.ID
	}
	return it.Row.Message.ConversationKey()
}

// Work answers the first of the items that wait in a conversation, together with those after it that one
// answer can serve, and returns the rest. It is the work function of a lane.
func (r *Runner) Work(ctx context.Context, key string, items []Item) (rest []Item) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil
	}
	gen, policies := r.cfg.Generation()
	defer policies.Release()
	if items[0].Turn != nil {
		r.resume(ctx, gen, policies, items[0])
		return items[1:]
	}
	c := r.claim(ctx, gen, policies, items)
	if len(c.rows) > 0 {
		r.begin(ctx, gen, policies, c)
	}
	return items[c.taken:]
}

// claim is the head of a conversation's queue, routed.
type claim struct {
	taken     int // items used up, dropped ones included
	rows      []store.InboxRow
	agent     string
	decisions []store.Decision
}

// claim routes messages until one belongs to another sender or another agent. Only one sender's messages are joined:
// a turn acts with the rights of its sender.
func (r *Runner) claim(ctx context.Context, gen *Generation, policies Policies, items []Item) claim {
	var c claim
	for _, it := range items {
		if it.Turn != nil || len(c.rows) > 0 && it.Row.Message.Sender != c.rows[0].Message.Sender {
			break
		}
		d, decisions := r.route(ctx, gen, policies, it.Row.Message)
		switch {
		case ctx.Err() != nil:
			return claim{} // policies that are cut off fail closed; the next process asks them again
		case d.Agent == "":
			if len(c.rows) > 0 {
				return c // dropped in its own right, the next time round
			}
			if !r.drop(ctx, it.Row, d, decisions) {
				pause(ctx) // the store has trouble; the message stays where it is
				return c
			}
			c.taken++
			continue
		case len(c.rows) > 0 && d.Agent != c.agent:
			return c
		}
		c.agent = d.Agent
		c.rows = append(c.rows, it.Row)
		c.decisions = append(c.decisions, decisions...)
		c.taken++
	}
	return c
}

// route asks the table and the policies, by the function that every door and `flynn route test` use.
// A bug in it concerns one message, which is set aside.
func (r *Runner) route(ctx context.Context, gen *Generation, policies Policies, m message.Message) (d route.Decision, decisions []store.Decision) {
	defer r.recovered("event", m.EventID, func() { d = route.Decision{Policy: "host", Reason: errBroken.Error(), Failed: true} })
	now := r.cfg.Now()
	facts := policy.RouteFacts{
		Facts: policy.Facts{
			Message: m, Role: gen.Roles.Of(m.Channel, m.SenderKey()), Door: route.Door(m.Channel), Now: now, Seed: now.UnixNano(),
		},
		Agents: gen.Names,
	}
	var records []policy.Record
	d, records = route.Decide(ctx, gen.Table, policies, facts)
	decisions = []store.Decision{{
		At: now, Kind: "route_table", Policy: "table", Answer: d.Static.Agent,
		Reason: strings.TrimSpace(fmt.Sprintf("%s %s", d.Static.Tier, d.Static.Rule)),
		Digest: fmt.Sprintf("generation %d", gen.Number),
	}}
	return d, append(decisions, logRecords(now, records)...)
}

// drop ends a message that no agent is to answer, and says so in the log of decisions.
func (r *Runner) drop(ctx context.Context, row store.InboxRow, d route.Decision, decisions []store.Decision) bool {
	why := "no rule names an agent for this sender"
	if d.Policy != "" {
		why = strings.TrimSpace("policy " + d.Policy + ": " + d.Reason)
	}
	err := r.cfg.Store.SetInbox(ctx, row.ID, store.InboxDropped, why)
	if err == nil {
		err = r.cfg.Store.AddDecisions(ctx, decisions)
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Error("drop message", "inbox", row.ID, "error", err)
	}
	return err == nil || errors.Is(err, store.ErrConflict)
}

// logRecords turns the records of asked policies into rows of the decision log.
func logRecords(now time.Time, records []policy.Record) []store.Decision {
	ds := make([]store.Decision, 0, len(records))
	for _, p := range records {
		calls, _ := json.Marshal(p.Calls) // plain bytes and numbers
		ds = append(ds, store.Decision{
			At: now, Kind: p.Kind, Policy: p.Policy, Digest: p.Digest, Frame: p.Frame, Calls: calls,
			Answer: p.Answer, Reason: p.Reason, Error: p.Error, Fuel: p.Fuel, Nanos: int64(p.Took),
		})
	}
	return ds
}

// recovered is deferred where a bug must not end the host: it logs a panic and has then called.
func (r *Runner) recovered(key, id string, then func()) {
	if p := recover(); p != nil {
		r.cfg.Log.Error("panic", key, id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		then()
	}
}

// pause waits before something is tried again.
func pause(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}
