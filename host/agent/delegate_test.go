package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// newTeam is a house in which helper may give work to other, and both to themselves.
func newTeam(t *testing.T, s *sqlite.Store, wrap func(Store) Store) *house {
	t.Helper()
	base := newHouse(t, s, wrap)
	for _, tl := range DelegationTools() {
		if err := base.gen.Registry.Register(tl); err != nil {
			t.Fatal(err)
		}
	}
	base.gen.Delegation = Delegation{MaxDepth: 2, MaxFanout: 2, Timeout: time.Minute}
	base.gen.Limits = Limits{Steps: 10, ToolCalls: 20, Tokens: 10_000, Time: time.Minute}
	for _, a := range base.gen.Agents {
		a.System = a.Name
		a.Delegates = []string{"helper", "other"}
		a.Offered = tool.NewSet("thing.touch", DelegateTool, ResultTool)
		a.Tools = TellDelegates(base.gen.Registry.ForModel(a.Offered), a.Delegates)
	}
	base.gen.Models = script(scripted)
	return base
}

// scripted answers by the agent: helper carries out what it is told, line by line, "TOOL ARGS", and then says what the results were;
// other touches what its task names, and says so.
func scripted(_ context.Context, req model.Request) (model.Response, error) {
	first := req.Messages[0].Text
	if req.System == "other" {
		if len(req.Messages) == 1 {
			return callTool("t1", "thing.touch", fmt.Sprintf(`{"what":%q}`, first)), nil
		}
		return say("other " + req.Messages[len(req.Messages)-1].Results[0].Text), nil
	}
	last := req.Messages[len(req.Messages)-1]
	if len(last.Results) == 0 && strings.HasPrefix(last.Text, "[") {
		return say("heard: " + last.Text), nil
	}
	at := len(req.Messages) - 1
	for at > 0 && len(req.Messages[at].Results) > 0 {
		at -= 2
	}
	lines := strings.Split(req.Messages[at].Text, "\n")
	done := (len(req.Messages) - 1 - at) / 2
	if done < len(lines) {
		name, args, _ := strings.Cut(lines[done], " ")
		return callTool(fmt.Sprintf("d%d", done), name, args), nil
	}
	return say("got: " + last.Results[0].Text), nil
}

const delegateWood = `agent.delegate {"agent":"other","task":"wood"}`

func (h *house) turns() []turnlog.Turn {
	h.t.Helper()
	var out []turnlog.Turn
	running, err := h.store.RunningTurns(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return append(out, running...)
}

func TestDelegates(t *testing.T) {
	h := newTeam(t, openStore(t), nil)
	var labels [][]string
	var agents []string
	h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
		labels, agents = append(labels, f.Labels), append(agents, f.Agent)
		return policy.Restrictions{}
	}
	h.accept("ann", delegateWood)
	h.work(t.Context())
	if got := h.texts(); len(got) != 1 || !strings.HasPrefix(got[0], "got: other touched wood\n\n[other: turn ") || !strings.Contains(got[0], "2 model calls, 1 tool calls, 22 tokens") {
		t.Fatalf("replies are %q", got)
	}
	if h.touch.counts["wood"] != 1 {
		t.Errorf("touched %v", h.touch.counts)
	}
	if want := []string{"helper", "other", "helper"}; !slices.Equal(agents, want) {
		t.Errorf("policies were asked about %q, want %q", agents, want)
	}
	if !slices.Contains(labels[1], "delegated:helper") {
		t.Errorf("labels of the child's call: %q", labels[1])
	}
	h.accept("ann", `thing.touch {"what":"stone"}`)
	h.work(t.Context())
	if last := labels[len(labels)-1]; !slices.Contains(last, "thing:wood") || slices.Contains(last, "delegated:helper") {
		t.Errorf("labels of the parent afterwards: %q", last)
	}
	if left := h.turns(); len(left) != 0 {
		t.Errorf("still running: %+v", left)
	}
	s, err := h.runner.sessions.get(t.Context(), "irc:ann:helper")
	if err != nil || s.used.Tokens != 22+22+22 {
		t.Errorf("the session used %d tokens, want those of three turns of two calls; %v", s.used.Tokens, err)
	}
}

func TestDelegationHasBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*house)
		say    string
		want   string
	}{
		{"an agent that is not named", func(h *house) { h.gen.Agents["helper"].Delegates = []string{"helper"} }, delegateWood, `may not give work to "other"`},
		{"too often", func(h *house) { h.gen.Delegation.MaxFanout = 0 }, delegateWood, "has used its 0 delegations"},
		{"too deep", func(h *house) { h.gen.Delegation.MaxDepth = 0 }, delegateWood, "the delegation chain has reached its limit of 0 agents"},
		{"the child lacks the tool", func(h *house) { h.gen.Agents["other"].Offered = tool.NewSet() }, delegateWood, "other refused: tool \"thing.touch\" is not offered"},
		{"the parent lacks the tool", func(h *house) { h.gen.Agents["helper"].Offered = tool.NewSet(DelegateTool) }, delegateWood, "other refused: tool \"thing.touch\" is not offered"},
		{"tokens of the turn", func(h *house) { h.gen.Limits.Tokens = 20 }, delegateWood, "the turn used its 20 tokens"},
		{"tool calls of the turn", func(h *house) { h.gen.Limits.ToolCalls = 1 }, delegateWood, "the turn used its 1 tool calls"},
		{"a policy about the parent", func(h *house) {
			h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
				return policy.Restrictions{Deny: f.Agent == "helper" && f.Tool == "thing.touch"}
			}
		}, delegateWood, "other refused: a policy denies this call"},
		{"a background child's child", func(h *house) {}, `agent.delegate {"agent":"helper","task":"agent.delegate {\"agent\":\"other\",\"task\":\"x\",\"background\":true}"}`,
			"only the agent that people speak to can delegate in the background"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTeam(t, openStore(t), nil)
			c.change(h)
			h.accept("ann", c.say)
			h.work(t.Context())
			if got := strings.Join(h.texts(), "|"); !strings.Contains(got, c.want) {
				t.Errorf("replies are %q, want %q", got, c.want)
			}
			if h.touch.counts["wood"] != 0 {
				t.Error("touched all the same")
			}
			if left := h.turns(); len(left) != 0 {
				t.Errorf("still running: %+v", left)
			}
		})
	}
}

func TestACycleOfAgentsEnds(t *testing.T) {
	h := newTeam(t, openStore(t), nil)
	h.gen.Models = script(func(_ context.Context, req model.Request) (model.Response, error) {
		if len(req.Messages) == 1 && slices.ContainsFunc(req.Tools, func(m model.Tool) bool { return m.Name == DelegateTool }) {
			return callTool("c", DelegateTool, fmt.Sprintf(`{"agent":"helper","task":"again%s"}`, req.Messages[0].Text)), nil
		}
		return say(req.Messages[0].Text), nil
	})
	h.accept("ann", "!")
	h.work(t.Context())
	h.want("!")
	ds, err := h.store.ListDecisions(t.Context(), journal.DecisionFilter{Kind: "enforce"})
	if err != nil || len(ds) != 2 {
		t.Errorf("%d delegations, want 2, the depth; %v", len(ds), err)
	}
}

// mortal is a store whose process ends at its nth write.
type mortal struct {
	Store
	mu    sync.Mutex
	left  int
	after bool // the write happens, and nobody is told
	die   context.CancelFunc
	dead  bool
}

func (m *mortal) write(do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDead
	}
	if m.left--; m.left > 0 {
		return do()
	}
	if m.after {
		if err := do(); err != nil {
			return err
		}
	}
	m.dead = true
	m.die()
	return errDead
}

func (m *mortal) CommitTurn(ctx context.Context, c turnlog.Commit) error {
	return m.write(func() error { return m.Store.CommitTurn(ctx, c) })
}

func (m *mortal) AppendInbox(ctx context.Context, msg message.Message, s mailbox.InboxState, note string) (row mailbox.InboxRow, fresh bool, err error) {
	err = m.write(func() (err error) { row, fresh, err = m.Store.AppendInbox(ctx, msg, s, note); return err })
	return row, fresh, err
}

// TestADelegationSurvivesAnyDeath ends the process at each of its writes, before and after it, and lets another one go on.
func TestADelegationSurvivesAnyDeath(t *testing.T) {
	for _, c := range []struct{ name, say, reply string }{
		{"foreground", delegateWood, "got: other touched wood"},
		{"background", `agent.delegate {"agent":"other","task":"wood","background":true}`, "touched wood"},
	} {
		for _, after := range []bool{false, true} {
			for n := 1; ; n++ {
				died := dieAt(t, fmt.Sprintf("%s, write %d, after=%v", c.name, n, after), n, after, c.say, c.reply)
				if !died {
					break
				}
			}
		}
	}
}

func dieAt(t *testing.T, name string, n int, after bool, text, reply string) (died bool) {
	t.Helper()
	s := openStore(t)
	ctx, die := context.WithCancel(t.Context())
	defer die()
	m := &mortal{Store: s, left: n, after: after, die: die}
	h := newTeam(t, s, nil)
	h.accept("ann", text)
	touched := h.touch.counts
	for round := range 2 {
		run := t.Context()
		wrap := func(s Store) Store { return s }
		if round == 0 {
			wrap, run = func(Store) Store { return m }, ctx
		}
		h = newTeam(t, s, wrap)
		h.touch.counts = touched
		for range 3 { // what is handed over is work of its own
			if run.Err() == nil {
				h.work(run)
			}
		}
	}
	replies := map[string]bool{}
	turns, err := s.History(t.Context(), "irc", "ann", 10)
	if err != nil {
		t.Fatal(err)
	}
	heard := 0
	for _, tn := range turns {
		rows, err := s.Replies(t.Context(), tn.ID)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %d replies of turn %s, %v", name, len(rows), tn.ID, err)
		}
		replies[rows[0].Reply.Text] = true
		if strings.Contains(rows[0].Reply.Text, "wood") || strings.Contains(rows[0].Reply.Text, "may or may not") {
			heard++
		}
	}
	if left, _ := s.RunningTurns(t.Context()); len(left) != 0 {
		t.Fatalf("%s: still running: %+v", name, left)
	}
	texts := strings.Join(slices.Sorted(maps.Keys(replies)), "|")
	if heard != 1 || touched["wood"] > 1 {
		t.Errorf("%s: heard of it %d times, touched %v; replies %q", name, heard, touched, texts)
	}
	if !m.dead && !strings.Contains(texts, reply) {
		t.Errorf("%s: replies %q, want %q", name, texts, reply)
	}
	return m.dead
}

func TestStopEndsDelegates(t *testing.T) {
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("background=%v", background), func(t *testing.T) {
			h := newTeam(t, openStore(t), nil)
			at := make(chan struct{})
			h.touch.during = func(ctx context.Context) { close(at); <-ctx.Done() }
			h.accept("ann", fmt.Sprintf(`agent.delegate {"agent":"other","task":"wood","background":%v}`, background))
			if background {
				h.work(t.Context())
			}
			var done sync.WaitGroup
			done.Go(func() { h.work(t.Context()) })
			<-at
			if !h.runner.Stop("irc:ann") {
				t.Error("nothing to stop")
			}
			done.Wait()
			last := h.texts()[len(h.texts())-1]
			if !background && last != "Stopped." {
				t.Errorf("replies %q", h.texts())
			}
			if left := h.turns(); len(left) != 0 {
				t.Errorf("still running: %+v", left)
			}
			if noted, err := h.store.NotedInbox(t.Context()); background && (err != nil || len(noted) != 1 || !strings.Contains(noted[0].Message.Text, "was stopped")) {
				t.Errorf("noted %+v, %v", noted, err)
			}
		})
	}
}

func TestBackground(t *testing.T) {
	h := newTeam(t, openStore(t), nil)
	var ended []string
	event.On(h.runner.cfg.Events, func(e TurnEnded) {
		if !e.WithParent {
			h.mu.Lock()
			ended = append(ended, e.Turn)
			h.mu.Unlock()
		}
	})
	h.accept("ann", `agent.delegate {"agent":"other","task":"wood","background":true}`)
	h.work(t.Context()) // the turn
	id := h.turns()[0].ID
	h.accept("ann", fmt.Sprintf("%s {\"id\":%q}", ResultTool, id))
	items, err := Recover(t.Context(), h.store)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items { // the second message alone: the child waits
		if it.Turn == nil {
			h.runner.Work(t.Context(), it.Key(), []Item{it})
		}
	}
	h.work(t.Context()) // the child
	h.work(t.Context()) // what it said
	if len(ended) != 4 || !slices.Contains(ended, id) {
		t.Errorf("the turns %q are over, want that of the child %s among four", ended, id)
	}
	got := h.texts()
	if len(got) != 3 || !strings.Contains(got[0], "works on it in the background") || !strings.Contains(got[1], "still at work") ||
		!strings.Contains(got[2], "heard: [other has done the task") || !strings.Contains(got[2], "other touched wood") {
		t.Fatalf("replies %q", got)
	}
	s, err := h.runner.sessions.get(t.Context(), "irc:ann:helper")
	if err != nil || !slices.Contains(s.labels, "thing:wood") || s.used.Tokens != 22+22+22+11 {
		t.Errorf("labels %q, %d tokens; %v", s.labels, s.used.Tokens, err)
	}
	h.accept("bob", fmt.Sprintf("%s {\"id\":%q}", ResultTool, id))
	h.work(t.Context())
	if last := h.texts()[3]; !strings.Contains(last, "no delegated task with the id") {
		t.Errorf("another conversation was told: %q", last)
	}
}

func TestAnOrphanEnds(t *testing.T) {
	s := openStore(t)
	h := newTeam(t, s, nil)
	at := make(chan struct{})
	ctx, kill := context.WithCancel(t.Context())
	h.touch.during = func(ctx context.Context) { close(at); <-ctx.Done() }
	h.accept("ann", delegateWood)
	var done sync.WaitGroup
	done.Go(func() { h.work(ctx) })
	<-at
	kill()
	done.Wait()
	if n := len(h.turns()); n != 2 {
		t.Fatalf("%d turns are running, want the parent and its child", n)
	}
	h = newTeam(t, s, nil)
	h.gen.Agents["other"].Offered = nil
	delete(h.gen.Agents, "helper")
	h.gen.Table = table()
	h.work(t.Context()) // the parent ends
	h.work(t.Context()) // and what it has left
	if left := h.turns(); len(left) != 0 {
		t.Errorf("still running: %+v", left)
	}
}

func TestApprovalsOfADelegateNameTheChain(t *testing.T) {
	h := newTeam(t, openStore(t), nil)
	h.chain.tool = func(f policy.ToolFacts) policy.Restrictions { return policy.Restrictions{Ask: f.Tool == "thing.touch"} }
	var where message.Conversation
	h.on.asked = func(tn turnlog.Turn, a consent.Approval) {
		where = tn.Conversation
		if a.Agent != "helper > other" || a.Requester != "irc:ann" {
			t.Errorf("approval of %q asked by %q", a.Agent, a.Requester)
		}
	}
	h.accept("ann", delegateWood)
	var done sync.WaitGroup
	done.Go(func() { h.work(t.Context()) })
	id := <-h.asked
	if err := h.approvals.Decide(t.Context(), id, true, "web:owner"); err != nil {
		t.Error(err)
	}
	done.Wait()
	if h.touch.counts["wood"] != 1 || where.ID != "ann" {
		t.Errorf("touched %v, asked in %q", h.touch.counts, where.ID)
	}
	if !slices.ContainsFunc(h.events, func(e message.Event) bool {
		return e.Kind == message.ToolApproval && e.Call == "d0/t1" && e.Agent == "helper"
	}) {
		t.Error("the watcher of the conversation was not asked")
	}
}

func TestADelegateFailsAlone(t *testing.T) {
	h := newTeam(t, openStore(t), nil)
	h.gen.Models = script(func(ctx context.Context, req model.Request) (model.Response, error) {
		if req.System == "other" {
			return model.Response{}, errors.New("no model")
		}
		return scripted(ctx, req)
	})
	h.accept("ann", delegateWood)
	h.work(t.Context())
	if got := h.texts(); len(got) != 1 || !strings.Contains(got[0], "other could not finish the task") {
		t.Errorf("replies %q", got)
	}
}
