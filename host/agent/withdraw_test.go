package agent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// TestARequestEndsWithItsCall ends a call that waits for a person in every way, and answers its request then.
func TestARequestEndsWithItsCall(t *testing.T) {
	var deny atomic.Bool
	ask := func(policy.ToolFacts) policy.Restrictions { return policy.Restrictions{Ask: true, Deny: deny.Load()} }
	for _, c := range []struct {
		name string
		end  func(h *house, id string) // while the call waits
		next func(h *house)            // where the call ends with its process: to the next one, before it works
		open bool                      // the request stays open for the next process
		why  string                    // the turn ended, as flynn explain says it
		mute bool                      // nothing is sent
	}{
		{name: "stopped", end: func(h *house, _ string) { h.runner.Stop("irc:ann") }, why: "stopped by a person"},
		{name: "stopped for its sender", end: func(h *house, _ string) { h.runner.StopFor("irc:ann") }},
		{name: "stopped in its conversation", end: func(h *house, _ string) { h.runner.StopIn("irc:ann") }},
		{name: "the caller hung up", end: func(h *house, _ string) { h.runner.HangUp("irc:ann") }, why: "the caller hung up"},
		{name: "its sender is blocked", why: "its sender is no longer admitted", mute: true, end: func(h *house, _ string) {
			next := *h.gen
			next.Admission = refuses(func(message.Message) string { return "blocked" })
			h.gen = &next
			h.runner.Readmit()
		}},
		{name: "halted", end: func(h *house, _ string) { h.runner.Halt() }},
		{name: "denied after all", end: func(h *house, id string) {
			deny.Store(true)
			if err := h.approvals.Decide(context.Background(), id, true, "web:owner"); err != nil {
				t.Error(err)
			}
		}},
		{name: "restarted", open: true},
		{name: "restarted, and its agent is gone", next: func(h *house) { delete(h.gen.Agents, "helper") }},
		{name: "restarted, and routed elsewhere", next: func(h *house) { h.gen.Table = tableTo("other") }},
		{name: "restarted, and its sender blocked", next: func(h *house) { h.gen.Admission = refuses(func(message.Message) string { return "blocked" }) }, mute: true},
		{name: "restarted, and its tool is gone", next: func(h *house) { h.gen.Agents["helper"].Offered = tool.NewSet("thing.look") }},
		{name: "restarted, and needs nobody", next: func(h *house) { h.chain = chain{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			deny.Store(false)
			s := openStore(t)
			h := newHouse(t, s, nil)
			h.chain.tool = ask
			h.accept("ann", "!touch wood")
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			var done sync.WaitGroup
			done.Go(func() { h.work(ctx) })
			id := <-h.asked
			if c.end != nil {
				c.end(h, id)
			} else {
				kill()
			}
			done.Wait()
			if a, err := s.Approval(t.Context(), id); c.end == nil && (err != nil || a.State != consent.ApprovalPending) {
				t.Fatalf("the request of a call that a restart finds is %s, error %v", a.State, err)
			}
			if c.open {
				return
			}
			if c.next != nil {
				h = newHouse(t, s, nil)
				h.chain.tool = ask
				c.next(h)
				h.work(t.Context())
			}
			turns, err := s.History(t.Context(), "irc", "ann", 10)
			if err != nil || c.why != "" && turns[0].Error != c.why {
				t.Errorf("the turn ended by %q, want %q, error %v", turns[0].Error, c.why, err)
			}
			if c.mute != (len(h.texts()) == 0) || h.touch.counts["wood"] != map[bool]int{true: 1}[strings.HasSuffix(c.name, "needs nobody")] {
				t.Errorf("sent %q, touched %v", h.texts(), h.touch.counts)
			}
			for _, grant := range []bool{true, false} {
				if err := h.approvals.Decide(t.Context(), id, grant, "web:owner"); !errors.Is(err, approval.ErrGone) {
					t.Errorf("answered %v after the call had ended: %v, want %v", grant, err, approval.ErrGone)
				}
			}
			if err := h.approvals.Grant(t.Context(), id, approval.Lease{Scope: consent.GrantSession}, "web:owner"); !errors.Is(err, approval.ErrGone) {
				t.Errorf("granted for the session after the call had ended: %v", err)
			}
		})
	}
}
