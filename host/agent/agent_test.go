package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "10") // each opens databases again and again; the command line may ask for more
	goleak.VerifyTestMain(m)
}

// script is a model that answers from a function of the messages it is shown.
type script func(ctx context.Context, req model.Request) (model.Response, error)

func (s script) Stream(ctx context.Context, _ string, req model.Request, emit func(model.Delta)) (model.Response, error) {
	r, err := s(ctx, req)
	if err == nil {
		emit(model.Delta{Text: r.Message.Text})
	}
	return r, err
}

func say(text string) model.Response {
	return model.Response{Message: model.Message{Role: model.Assistant, Text: text}, Stop: model.StopEnd, Usage: model.Usage{Input: 10, Output: 1}}
}

func callTool(id, name, args string) model.Response {
	return model.Response{Stop: model.StopToolCalls, Usage: model.Usage{Input: 10, Output: 1}, Message: model.Message{
		Role: model.Assistant, Calls: []model.ToolCall{{ID: id, Name: name, Args: json.RawMessage(args)}},
	}}
}

// parrot answers "!touch X" by a call of the tool touch, a tool's result by its text, anything else by an echo.
func parrot(_ context.Context, req model.Request) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	if len(last.Results) > 0 {
		return say("did: " + last.Results[0].Text), nil
	}
	if what, ok := strings.CutPrefix(last.Text, "!touch "); ok {
		return callTool("c1", "thing.touch", fmt.Sprintf(`{"what":%q}`, what)), nil
	}
	return say("echo: " + last.Text), nil
}

// touch is a tool that counts how often each thing was touched.
type touch struct {
	effect  tool.Effect
	machine bool
	mu      sync.Mutex
	counts  map[string]int
	during  func(ctx context.Context)
}

func (t *touch) Spec() tool.Spec {
	return tool.Spec{Name: "thing.touch", Description: "touches", Effect: t.effect, Machine: t.machine, Schema: json.RawMessage(
		`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"],"additionalProperties":false}`)}
}

func (t *touch) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var args struct{ What string }
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return tool.Result{}, err
	}
	t.mu.Lock()
	t.counts[args.What]++
	t.mu.Unlock()
	if t.during != nil {
		t.during(ctx)
	}
	return tool.Result{Text: "touched " + args.What, Labels: []string{"thing:" + args.What}}, ctx.Err()
}

// chain is a pinned chain of policies made of functions.
type chain struct {
	tool  func(policy.ToolFacts) policy.Restrictions
	route func(policy.RouteFacts) policy.RouteAnswer
}

func (c chain) Route(_ context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record) {
	if c.route == nil {
		return policy.RouteAnswer{}, nil
	}
	return c.route(f), []policy.Record{{Policy: "test", Kind: "route"}}
}

func (c chain) Tool(_ context.Context, f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
	if c.tool == nil {
		return policy.Restrictions{}, nil
	}
	return c.tool(f), []policy.Record{{Policy: "test", Kind: "tool"}}
}

func (c chain) Routes() bool { return c.route != nil }

func (chain) Release() {}

// noMachines is for agents whose tools need none.
type noMachines struct{}

func (noMachines) Host(message.WorkspaceKey) (machine.Machine, error) { return nil, nil }
func (noMachines) Sandbox(context.Context, message.WorkspaceKey, string) (machine.Machine, error) {
	return nil, machine.ErrUnavailable
}
func (noMachines) Available(context.Context, message.WorkspaceKey, string) error { return nil }
func (noMachines) Moved(context.Context, message.WorkspaceKey) string            { return "" }
func (noMachines) Digest(string) string                                          { return "made of nothing" }
func (noMachines) Dir(message.WorkspaceKey) string                               { return "/workspace" }

// house is a runner with its surroundings, over a store that outlives it.
type house struct {
	t         *testing.T
	store     Store
	runner    *Runner
	approvals *approval.Service
	touch     *touch
	chain     chain
	gen       *Generation
	events    []message.Event
	replies   []message.Reply
	mu        sync.Mutex
	asked     chan string
	on        *around
}

func newHouse(t *testing.T, s *sqlite.Store, wrap func(Store) Store) *house {
	t.Helper()
	h := &house{t: t, store: s, touch: &touch{effect: tool.Write, counts: map[string]int{}}, asked: make(chan string, 10), on: &around{}}
	if wrap != nil {
		h.store = wrap(s)
	}
	reg := tool.NewRegistry()
	if err := reg.Register(h.touch); err != nil {
		t.Fatal(err)
	}
	h.gen = &Generation{
		Number: 1, Table: table(), Models: script(parrot), Registry: reg, Names: []string{"helper", "other"},
		Limits:    Limits{Steps: 5, ToolCalls: 3, Tokens: 1000, Time: time.Minute},
		Roles:     route.NewRoles(config.Access{Owners: []string{"irc:*"}}, route.AllProved),
		Admission: refuses(nil),
	}
	h.gen.Agents = map[string]*Agent{}
	for _, name := range h.gen.Names {
		h.gen.Agents[name] = &Agent{Name: name, Tier: "default", Offered: tool.NewSet("thing.touch"), Window: DefaultWindow}
	}
	var err error
	if h.approvals, err = approval.New(approval.Config{Store: s, Notify: func(a consent.Approval) { h.asked <- a.ID }}); err != nil {
		t.Fatal(err)
	}
	h.on.generation = func() (*Generation, Policies) { return h.gen, h.chain }
	h.on.replied = func(_ string, r message.Reply) { h.mu.Lock(); h.replies = append(h.replies, r); h.mu.Unlock() }
	h.on.accept = func(ctx context.Context, m message.Message) error {
		state := mailbox.InboxNew
		if m.Noted {
			state = mailbox.InboxNoted
		}
		_, _, err := h.store.AppendInbox(ctx, m, state, "")
		return err
	}
	cfg := h.on.config()
	cfg.Store, cfg.Approvals, cfg.Log = h.store, h.approvals, slog.New(slog.DiscardHandler)
	cfg.Events = event.Only(func(e message.Event) { h.mu.Lock(); h.events = append(h.events, e); h.mu.Unlock() })
	h.runner = NewRunner(cfg)
	return h
}

func openStore(t *testing.T) *sqlite.Store {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (h *house) accept(sender, text string) {
	h.t.Helper()
	_, _, err := h.store.AppendInbox(h.t.Context(), message.Message{
		Channel: "irc", EventID: store.NewID(time.Now()), Text: text, Sender: message.Sender{ID: sender},
		Conversation: message.Conversation{ID: sender, Kind: message.DM},
	}, mailbox.InboxNew, "")
	if err != nil {
		h.t.Fatal(err)
	}
}

// work answers everything that waits, as the queue of a host would.
func (h *house) work(ctx context.Context) {
	h.t.Helper()
	items, err := Recover(h.t.Context(), h.store)
	if err != nil {
		h.t.Fatal(err)
	}
	for len(items) > 0 && ctx.Err() == nil {
		key := items[0].Key()
		mine := slices.DeleteFunc(slices.Clone(items), func(it Item) bool { return it.Key() != key })
		rest := h.runner.Work(ctx, key, mine)
		items = append(rest, slices.DeleteFunc(items, func(it Item) bool { return it.Key() == key })...)
	}
}

func (h *house) texts() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, r := range h.replies {
		out = append(out, r.Text)
	}
	return out
}

func (h *house) want(texts ...string) {
	h.t.Helper()
	if got := h.texts(); !slices.Equal(got, texts) {
		h.t.Fatalf("replies are %q, want %q", got, texts)
	}
}

// wantEnd checks the last two events: the outcome, with the words that were sent, and the end.
func (h *house) wantEnd(outcome message.EventKind, text string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) < 2 {
		h.t.Fatalf("events: %+v", h.events)
	}
	end := h.events[len(h.events)-2:]
	if end[0].Kind != outcome || end[0].Text != text || end[0].Key == "" || end[0].IsError != (outcome == message.TurnFailed) || end[1].Kind != message.TurnDone {
		h.t.Errorf("the turn ended with %+v, want %s with %q, then %s", end, outcome, text, message.TurnDone)
	}
}

// decisions returns the decisions shown, in order.
func (h *house) decisions() []string {
	var out []string
	for _, e := range h.events {
		if e.Kind == message.ToolDecision {
			out = append(out, e.Decision)
		}
	}
	return out
}

func TestAnswers(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.accept("ann", "hello")
	h.work(t.Context())
	h.want("echo: hello")
	if items, _ := Recover(t.Context(), h.store); len(items) != 0 {
		t.Fatalf("left over: %+v", items)
	}
}

func TestRemembersTheConversation(t *testing.T) {
	s := openStore(t)
	count := script(func(_ context.Context, req model.Request) (model.Response, error) {
		return say(fmt.Sprintf("%d messages", len(req.Messages))), nil
	})
	h := newHouse(t, s, nil)
	h.gen.Models = count
	for range 2 {
		h.accept("ann", "hi")
		h.work(t.Context())
	}
	h.accept("bob", "hi")
	h.work(t.Context())
	h.want("1 messages", "3 messages", "1 messages")

	h = newHouse(t, s, nil) // another process
	h.gen.Models = count
	h.accept("ann", "hi")
	h.work(t.Context())
	h.want("5 messages")
}

func TestRunsATool(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.accept("ann", "!touch wood")
	h.work(t.Context())
	h.want("did: touched wood")
	if h.touch.counts["wood"] != 1 || !slices.Equal(h.decisions(), []string{"run"}) {
		t.Fatalf("touched %v, decisions %v", h.touch.counts, h.decisions())
	}
	ds, err := h.store.ListDecisions(t.Context(), journal.DecisionFilter{Kind: "enforce"})
	if err != nil || len(ds) != 1 || ds[0].Turn == "" {
		t.Fatalf("decision log: %+v, %v", ds, err)
	}
}

func TestLabelsStick(t *testing.T) {
	s := openStore(t)
	var seen [][]string
	for range 2 { // the second time in another process
		h := newHouse(t, s, nil)
		h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
			seen = append(seen, slices.Clone(f.Labels))
			return policy.Restrictions{}
		}
		h.accept("ann", "!touch wood")
		h.work(t.Context())
	}
	if len(seen) != 2 || len(seen[0]) != 0 || !slices.Equal(seen[1], []string{"thing:wood"}) {
		t.Fatalf("labels at the calls: %q", seen)
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		name    string
		chain   chain
		reply   string
		touched int
	}{
		{"a tool policy denies", chain{tool: func(policy.ToolFacts) policy.Restrictions {
			return policy.Restrictions{Deny: true, Reasons: []string{"test: not today"}}
		}}, "not today", 0},
		{"a route policy picks another agent", chain{route: func(policy.RouteFacts) policy.RouteAnswer {
			return policy.RouteAnswer{Decided: true, Agent: "other"}
		}}, "did: touched wood", 1},
		{"a route policy drops", chain{route: func(policy.RouteFacts) policy.RouteAnswer { return policy.RouteAnswer{Decided: true} }}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, openStore(t), nil)
			h.chain = c.chain
			h.accept("ann", "!touch wood")
			h.work(t.Context())
			if got := strings.Join(h.texts(), "|"); !strings.Contains(got, c.reply) || (c.reply == "") != (got == "") {
				t.Errorf("replies are %q, want %q", got, c.reply)
			}
			if h.touch.counts["wood"] != c.touched {
				t.Errorf("touched %d times, want %d", h.touch.counts["wood"], c.touched)
			}
			if items, _ := Recover(t.Context(), h.store); len(items) != 0 {
				t.Errorf("left over: %+v", items)
			}
		})
	}
}

func TestApproval(t *testing.T) {
	ask := chain{tool: func(policy.ToolFacts) policy.Restrictions {
		return policy.Restrictions{Ask: true, Reasons: []string{"test: ask"}}
	}}
	for _, grant := range []bool{true, false} {
		t.Run(fmt.Sprintf("granted=%v", grant), func(t *testing.T) {
			h := newHouse(t, openStore(t), nil)
			h.chain = ask
			h.accept("ann", "!touch wood")
			var done sync.WaitGroup
			done.Go(func() { h.work(t.Context()) })
			id := <-h.asked
			if err := h.approvals.Decide(t.Context(), id, grant, "web:owner"); err != nil {
				t.Error(err)
			}
			done.Wait()
			want := map[bool]int{true: 1, false: 0}[grant]
			if h.touch.counts["wood"] != want || len(h.texts()) != 1 {
				t.Fatalf("touched %d times, replies %q", h.touch.counts["wood"], h.texts())
			}
		})
	}
}

func TestApprovalSurvivesARestart(t *testing.T) {
	s := openStore(t)
	ask := chain{tool: func(policy.ToolFacts) policy.Restrictions { return policy.Restrictions{Ask: true} }}
	h := newHouse(t, s, nil)
	h.chain = ask
	h.accept("ann", "!touch wood")
	ctx, kill := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { h.work(ctx) })
	id := <-h.asked
	kill()
	done.Wait()

	h = newHouse(t, s, nil)
	h.chain = ask
	if err := h.approvals.Decide(t.Context(), id, true, "web:owner"); err != nil {
		t.Fatal(err)
	}
	h.work(t.Context())
	h.want("did: touched wood")
	for len(h.asked) > 0 { // told of the decision, not asked anew
		if other := <-h.asked; other != id {
			t.Fatalf("asked again: %s after %s", other, id)
		}
	}
}

func TestOnlyOneSendersMessagesAreJoined(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	for i, who := range []string{"ann", "ann", "bob", "ann"} {
		_, _, err := h.store.AppendInbox(t.Context(), message.Message{
			Channel: "irc", EventID: fmt.Sprint(i), Text: fmt.Sprint("m", i), Sender: message.Sender{ID: who, Name: "<" + who + "> x"},
			Conversation: message.Conversation{ID: "#c", Kind: message.Group},
		}, mailbox.InboxNew, "")
		if err != nil {
			t.Fatal(err)
		}
	}
	h.work(t.Context())
	h.want("echo: <annx ann> m0\n<annx ann> m1", "echo: <bobx bob> m2", "echo: <annx ann> m3")
}

func TestLimits(t *testing.T) {
	loop := script(func(context.Context, model.Request) (model.Response, error) {
		return callTool("c", "thing.touch", `{"what":"x"}`), nil
	})
	for _, c := range []struct {
		name   string
		limits Limits
		model  script
		want   string
	}{
		{"steps", Limits{Steps: 2, ToolCalls: 100, Tokens: 1e6, Time: time.Minute}, loop, "used its 2 steps"},
		{"tool calls", Limits{Steps: 100, ToolCalls: 3, Tokens: 1e6, Time: time.Minute}, loop, "used its 3 tool calls"},
		{"tokens", Limits{Steps: 100, ToolCalls: 100, Tokens: 30, Time: time.Minute}, loop, "used its 30 tokens"},
		{"time", Limits{Steps: 100, ToolCalls: 100, Tokens: 1e6, Time: 10 * time.Millisecond},
			func(ctx context.Context, _ model.Request) (model.Response, error) {
				<-ctx.Done()
				return model.Response{}, ctx.Err()
			}, "took too long"},
		{"the model fails", Limits{Steps: 1, ToolCalls: 1, Tokens: 1, Time: time.Minute}, func(context.Context, model.Request) (model.Response, error) {
			return model.Response{}, &model.Error{Kind: model.Overloaded, Err: errors.New("secret detail")}
		}, "too busy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, openStore(t), nil)
			h.gen.Limits, h.gen.Models = c.limits, c.model
			h.accept("ann", "go")
			h.work(t.Context())
			got := strings.Join(h.texts(), "|")
			if !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
				t.Fatalf("replies are %q, want %q", got, c.want)
			}
			h.wantEnd(message.TurnFailed, got)
		})
	}
}

func TestStop(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.touch.during = func(ctx context.Context) {
		if !h.runner.Stop("irc:ann") {
			t.Error("no turn to stop")
		}
		<-ctx.Done()
	}
	h.accept("ann", "!touch wood")
	h.work(t.Context())
	h.want("Stopped.")
	h.wantEnd(message.TurnFailed, "Stopped.")
	if h.runner.Stop("irc:ann") {
		t.Error("stopped a turn that is over")
	}
	h.touch.during = nil
	h.accept("ann", "hello again") // the transcript is still one that a model accepts
	h.work(t.Context())
	h.want("Stopped.", "echo: hello again")
	h.wantEnd(message.ReplyReady, "echo: hello again")
}

// dying is a store that dies after some commits: the process is gone, what was committed is there. The commit that it
// dies at may or may not have happened.
type dying struct {
	Store
	mu   sync.Mutex
	left int
	late bool // the last commit happens, but nobody is told
	kill context.CancelFunc
	done chan struct{} // told of each commit, and has room for all; it may be nil
}

func (d *dying) CommitTurn(ctx context.Context, c turnlog.Commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done != nil {
		defer func() { d.done <- struct{}{} }()
	}
	if d.left--; d.left >= 0 {
		return d.Store.CommitTurn(ctx, c)
	}
	if d.late && d.left == -1 {
		d.Store.CommitTurn(ctx, c)
	}
	d.kill()
	return errors.New("the process is dead")
}

// TestCrashAtEveryCommit kills a host before and after each commit of a turn with a tool, and lets another one go on:
// there is one reply, and the tool has not run twice. The result of the call is committed with the reply if the model answers at
// once, and by itself if it takes its time.
func TestCrashAtEveryCommit(t *testing.T) {
	for n := range 8 {
		at, late, slow := n/2, n%2 == 1, false
		if at >= 2 {
			slow = true // of three commits, the last two
			at--
		}
		t.Run(fmt.Sprintf("commit %d, late=%v, slow=%v", at, late, slow), func(t *testing.T) {
			s := openStore(t)
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			d := &dying{left: at, late: late, kill: kill, done: make(chan struct{}, 8)}
			first := newHouse(t, s, func(in Store) Store {
				d.Store = in
				return d
			})
			if slow {
				first.gen.Models = answering(parrot, d.done)
			}
			first.accept("ann", "!touch wood")
			first.work(ctx)

			second := newHouse(t, s, nil)
			second.work(t.Context())
			out, err := s.UnsentOutbox(t.Context())
			if err != nil || len(out) != 1 {
				t.Fatalf("outbox has %d replies (%v), want 1", len(out), err)
			}
			if n := first.touch.counts["wood"] + second.touch.counts["wood"]; n > 1 {
				t.Fatalf("the tool ran %d times", n)
			}
			if ctx.Err() == nil {
				t.Fatal("the process did not die")
			}
		})
	}
}

// answering is a model that answers a tool's result when the call's start and its result are committed.
func answering(m script, committed <-chan struct{}) script {
	return func(ctx context.Context, req model.Request) (model.Response, error) {
		if len(req.Messages[len(req.Messages)-1].Results) > 0 {
			for range 2 {
				select {
				case <-committed:
				case <-ctx.Done():
					return model.Response{}, ctx.Err()
				}
			}
		}
		return m(ctx, req)
	}
}

// TestResultIsHeldBackForAnswer: a result is durable by itself when a model takes its time, and when the host ends in order meanwhile.
func TestResultIsHeldBackForAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		commits int
		model   func(kill func(), committed <-chan struct{}) script
	}{
		{"the model takes its time", 3, func(_ func(), committed <-chan struct{}) script { return answering(parrot, committed) }},
		{"the host ends", 2, func(kill func(), _ <-chan struct{}) script {
			return func(ctx context.Context, req model.Request) (model.Response, error) {
				if len(req.Messages[len(req.Messages)-1].Results) > 0 {
					kill()
				}
				return parrot(ctx, req)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t)
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			d := &dying{left: c.commits, kill: kill, done: make(chan struct{}, 8)}
			h := newHouse(t, s, func(in Store) Store {
				d.Store = in
				return d
			})
			h.gen.Models = c.model(kill, d.done)
			h.accept("ann", "!touch wood")
			h.work(ctx)
			steps, err := s.Transcript(t.Context(), "irc:ann:helper", 10)
			if err != nil {
				t.Fatal(err)
			}
			results := 0
			for _, step := range steps {
				if step.Kind == turnlog.StepToolResult {
					results++
				}
			}
			if results != 1 || d.left != 0 {
				t.Errorf("%d results are in the store, want 1; %d commits are left", results, d.left)
			}
		})
	}
}

// table sends everybody to the helper.
func table() *route.Table { return tableTo("helper") }

func tableTo(agent string) *route.Table {
	t, _ := route.New(&config.Config{
		Agents:  map[string]config.Agent{"helper": {}, "other": {}},
		Routing: config.Routing{DefaultAgent: agent},
	})
	return t
}

// A lease lets the call run that was asked about and those after it, until something about them is another.
func TestALeaseIsAskedForOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*house)
		asked  bool
	}{
		{"nothing changes", func(*house) {}, false},
		{"the policies ask for another reason", func(h *house) {
			h.chain = chain{tool: func(policy.ToolFacts) policy.Restrictions {
				return policy.Restrictions{Ask: true, Reasons: []string{"test: ask", "test: a web page was read"}}
			}}
		}, true},
		{"it was revoked", func(h *house) {
			list, err := h.approvals.Grants(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("%d grants, %v", len(list), err)
			}
			if err := h.approvals.Revoke(t.Context(), list[0].ID, "web:owner"); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t)
			h := newHouse(t, s, nil)
			var err error
			if h.approvals, err = approval.New(approval.Config{Store: s, Grants: s, Notify: func(a consent.Approval) { h.asked <- a.ID }}); err != nil {
				t.Fatal(err)
			}
			h.runner.cfg.Approvals = h.approvals
			h.chain = chain{tool: func(policy.ToolFacts) policy.Restrictions {
				return policy.Restrictions{Ask: true, Reasons: []string{"test: ask"}}
			}}
			h.accept("ann", "!touch wood")
			var done sync.WaitGroup
			done.Go(func() { h.work(t.Context()) })
			if err := h.approvals.Grant(t.Context(), <-h.asked, approval.Lease{Scope: consent.GrantStanding}, "web:owner"); err != nil {
				t.Error(err)
			}
			done.Wait()
			for len(h.asked) > 0 {
				<-h.asked // told of the answer
			}
			h.want("did: touched wood")
			c.change(h)
			h.accept("ann", "!touch wood")
			done.Go(func() { h.work(t.Context()) })
			if c.asked {
				if err := h.approvals.Decide(t.Context(), <-h.asked, false, "web:owner"); err != nil {
					t.Error(err)
				}
			}
			done.Wait()
			want := map[bool]int{false: 2, true: 1}[c.asked]
			if got := h.touch.counts["wood"]; got != want || !c.asked && len(h.asked) > 0 {
				t.Errorf("touched %d times, want %d; %d more requests", got, want, len(h.asked))
			}
		})
	}
}
