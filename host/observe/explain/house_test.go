package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// puppet is a provider that does what the last message says: "TOOL ARGS" calls a tool, a result is said, anything else is echoed.
type puppet struct{ broken bool }

func (p puppet) Stream(_ context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
	if p.broken {
		emit(model.Delta{Text: "I th"})
		return model.Response{Usage: model.Usage{Input: 10, Output: 2}}, &model.Error{Kind: model.BadRequest, Provider: "demo", Err: errors.New("no")}
	}
	last, usage := req.Messages[len(req.Messages)-1], model.Usage{Input: 1000, Output: 100, CostUSD: 0.0011}
	if len(last.Results) > 0 {
		return model.Response{Stop: model.StopEnd, Usage: usage, Message: model.Message{Role: model.Assistant, Text: "got: " + last.Results[0].Text}}, nil
	}
	if name, args, ok := strings.Cut(last.Text, " "); ok && strings.Contains(name, ".") {
		return model.Response{Stop: model.StopToolCalls, Usage: usage, Message: model.Message{
			Role: model.Assistant, Calls: []model.ToolCall{{ID: "c1", Name: name, Args: json.RawMessage(args)}},
		}}, nil
	}
	return model.Response{Stop: model.StopEnd, Usage: usage, Message: model.Message{Role: model.Assistant, Text: "echo: " + last.Text}}, nil
}

func (puppet) Close() error { return nil }

// touch is a tool that acts on a machine, or only says so.
type touch struct{}

func (touch) Spec() tool.Spec {
	return tool.Spec{Name: "thing.touch", Description: "touches", Effect: tool.Write, Machine: true, Schema: json.RawMessage(
		`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"],"additionalProperties":false}`)}
}

func (touch) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	return tool.Result{Text: "touched " + string(c.Args)}, nil
}

// chain is a chain of one policy.
type chain struct {
	restrictions policy.Restrictions
	route        policy.RouteAnswer
}

func (c chain) Route(context.Context, policy.RouteFacts) (policy.RouteAnswer, []policy.Record) {
	answer := "pass"
	if c.route.Decided {
		answer = "drop"
	}
	return c.route, []policy.Record{{Policy: "doorman", Kind: "route", Answer: answer, Reason: c.route.Reason, Fuel: 42}}
}

func (c chain) Tool(context.Context, policy.ToolFacts) (policy.Restrictions, []policy.Record) {
	answer := "pass"
	switch r := c.restrictions; {
	case r.Deny:
		answer = "deny"
	case r.Ask:
		answer = "ask"
	}
	return c.restrictions, []policy.Record{{Policy: "guard", Kind: "tool", Answer: answer, Reason: strings.Join(c.restrictions.Reasons, ", "), Fuel: 7}}
}

func (c chain) Routes() bool { return true }
func (chain) Release()       {}

// room is a machine that a tool does not look at.
type room struct {
	machine.Machine
	name string
}

func (r room) Name() string { return r.name }

// rooms hands them out.
type rooms struct{}

func (rooms) Host(message.WorkspaceKey) (machine.Machine, error) { return room{name: tool.Host}, nil }
func (rooms) Sandbox(_ context.Context, _ message.WorkspaceKey, name string) (machine.Machine, error) {
	return room{name: name}, nil
}
func (rooms) Available(context.Context, message.WorkspaceKey, string) error { return nil }
func (rooms) Moved(context.Context, message.WorkspaceKey) string            { return "" }
func (rooms) Digest(string) string                                          { return "made of nothing" }
func (rooms) Dir(message.WorkspaceKey) string                               { return "/workspace" }

// house runs turns as a host does, over a store.
type house struct {
	t         *testing.T
	store     *sqlite.Store
	gen       *agent.Generation
	chain     chain
	approvals *approval.Service
	asked     chan string
	runner    *agent.Runner
}

func newHouse(t *testing.T) *house {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h := &house{t: t, store: s, asked: make(chan string, 10)}
	h.generation()
	if h.approvals, err = approval.New(approval.Config{Store: s, Now: func() time.Time { return noon }, Notify: func(a consent.Approval) { h.asked <- a.ID }}); err != nil {
		t.Fatal(err)
	}
	h.runner = agent.NewRunner(agent.Config{
		Store: s, Machines: rooms{}, Approvals: h.approvals, Tools: &tool.Runner{}, Now: func() time.Time { return noon },
		Generations: h, Outbox: h, Inbox: h, Log: slog.New(slog.DiscardHandler),
	})
	return h
}

// InForce implements agent.Generations.
func (h *house) InForce() (*agent.Generation, agent.Policies) { return h.gen, h.chain }

// Place implements agent.Generations.
func (h *house) Scope(m message.Message) string { return string(m.ConversationKey()) }

// Push implements agent.Outbox.
func (h *house) Push(string, message.Reply) {}

// TakeUp implements agent.Outbox.
func (h *house) TakeUp(context.Context, string) error { return nil }

// Accept implements agent.Inbox.
func (h *house) Accept(ctx context.Context, m message.Message) error {
	_, _, err := h.store.AppendInbox(ctx, m, mailbox.InboxNew, "")
	return err
}

func (h *house) generation() {
	h.t.Helper()
	cfg := func(name string, fallbacks ...string) config.Model {
		return config.Model{Provider: name, Model: name + "-1", Fallbacks: fallbacks, ContextWindow: 100_000, MaxOutputTokens: 100, TimeoutSeconds: 10, Prices: config.Prices{Input: 1, Output: 5}}
	}
	models, err := model.NewSet(map[string]config.Model{"default": cfg("demo"), "shaky": cfg("broken", "default")}, model.Options{
		Providers: map[string]model.Constructor{
			"demo":   func(config.Model) (model.Provider, error) { return puppet{}, nil },
			"broken": func(config.Model) (model.Provider, error) { return puppet{broken: true}, nil },
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { models.Close() })
	table, _ := route.New(&config.Config{Agents: map[string]config.Agent{"helper": {}, "other": {}}, Routing: config.Routing{DefaultAgent: "helper"}})
	h.gen = &agent.Generation{
		Number: 3, Table: table, Models: models, Registry: tool.NewRegistry(), Names: []string{"helper", "other"}, Agents: map[string]*agent.Agent{},
		Limits: agent.Limits{Steps: 5, ToolCalls: 5, Tokens: 100_000, Time: time.Minute}, Roles: route.NewRoles(config.Access{Owners: []string{"irc:*"}}, route.AllProved),
		Admission: refuses(""), Delegation: agent.Delegation{MaxDepth: 2, MaxFanout: 2, Timeout: time.Minute},
	}
	for _, t := range append(agent.DelegationTools(), tool.Tool(touch{})) {
		if err := h.gen.Registry.Register(t); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, name := range h.gen.Names {
		h.gen.Agents[name] = &agent.Agent{
			Name: name, Tier: "default", Window: agent.DefaultWindow, Delegates: []string{"other"}, Approve: tool.ApproveNone,
			Offered: tool.NewSet("thing.touch", agent.DelegateTool, agent.ResultTool),
		}
	}
}

// say has a message come in and be answered, and decides what is asked meanwhile.
func (h *house) say(text string, grant bool) {
	h.t.Helper()
	_, _, err := h.store.AppendInbox(h.t.Context(), message.Message{
		Channel: "irc", EventID: "e1", Text: text, Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "ann", Kind: message.DM},
		ReceivedAt: noon,
	}, mailbox.InboxNew, "")
	if err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.work()
	}()
	for {
		select {
		case id := <-h.asked:
			if err := h.approvals.Decide(h.t.Context(), id, grant, "web:owner"); err != nil {
				h.t.Error(err)
			}
		case <-done:
			return
		}
	}
}

func (h *house) work() {
	items, err := agent.Recover(h.t.Context(), h.store)
	if err != nil {
		h.t.Error(err)
		return
	}
	for len(items) > 0 {
		key := items[0].Key()
		mine := slices.DeleteFunc(slices.Clone(items), func(it agent.Item) bool { return it.Key() != key })
		rest := h.runner.Work(h.t.Context(), key, mine)
		items = append(rest, slices.DeleteFunc(items, func(it agent.Item) bool { return it.Key() == key })...)
	}
}

// deliver marks the replies of a turn as sent, as their channel would.
func (h *house) deliver() {
	h.t.Helper()
	rows, err := h.store.UnsentOutbox(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for i, r := range rows {
		r.State, r.Attempts, r.PlatformIDs = mailbox.OutboxSent, i+1, []string{fmt.Sprint("m", i)}
		if err := h.store.SetOutbox(h.t.Context(), r); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *house) trace(id string) Trace {
	h.t.Helper()
	trail, err := h.store.Trail(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	trace, err := New(trail)
	if err != nil {
		h.t.Fatal(err)
	}
	return trace
}

// onlyBroken has no model that answers.
type onlyBroken struct{}

func (onlyBroken) Stream(context.Context, string, model.Request, func(model.Delta)) (model.Response, error) {
	return model.Response{}, &model.Error{Kind: model.Auth, Provider: "demo", Err: errors.New("the key is not valid")}
}

// refuses is why no message is answered; "" refuses none.
type refuses string

func (r refuses) Refusal(message.Message) string { return string(r) }
