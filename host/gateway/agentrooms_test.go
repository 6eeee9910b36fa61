package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"golang.org/x/sync/errgroup"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// trouble is a name that takes the reader in: it reorders, clears a terminal and looks like HTML.
const trouble = "a\u202e\x1b[2J<img src=x onerror=alert(1)>"

// someAgents are agents as a host describes them.
type someAgents struct{}

func (someAgents) Agents(context.Context) ([]gateway.AgentSummary, error) {
	list := []gateway.AgentSummary{
		{Name: "main", Kind: "chat", Default: true, Tier: "default", Model: "demo", Profile: "full", Tools: 200},
		{Name: trouble, Kind: "cli", Sandbox: "cli:x", Waits: []string{"github"}, Missing: "no key " + trouble},
	}
	return list, nil
}

func (a someAgents) Agent(ctx context.Context, name string) (gateway.AgentDetail, error) {
	list, _ := a.Agents(ctx)
	left, usd := int64(5), 1.5
	d := gateway.AgentDetail{
		AgentSummary: list[0], System: strings.Repeat("Be kind. "+trouble+"\n", 50), SystemLength: 2000, Tiers: []string{"default", "fast"}, Delegates: []string{trouble}, DelegatedBy: []string{},
		Approve: "shell", Where: &gateway.AgentSandbox{Name: "default", Detail: "no engine", Image: "node:22", Network: "allowlist", Allowlist: []string{"example.com"}, Memory: 1 << 29, CPUs: 1.5, Pids: 9, Seconds: 30},
		Budget: gateway.Budget{Tokens: 7, TokensLimit: &left, TokensLeft: &left, USDLimit: &usd, USDLeft: &usd}, Memory: gateway.AgentMemory{Tools: []string{"memory.read"}, MaxNotes: 10},
	}
	if d.Name = name; name != "main" {
		d.AgentSummary = list[1]
	}
	for i := range 200 {
		ask := gateway.ToolUsual{Action: "ask", Where: "host", Reasons: []string{"commands need a person " + trouble}}
		d.Offered = append(d.Offered, gateway.AgentTool{
			Name: fmt.Sprintf("git.tool%03d", i), Effect: "execute", Provider: trouble, Says: trouble, Channel: ask, Local: gateway.ToolUsual{Action: "run", Where: "default", Reasons: []string{}},
		})
	}
	return d, nil
}

func (someAgents) Routing(context.Context) (gateway.RoutingTable, error) {
	return gateway.RoutingTable{
		Rules:    []gateway.RouteRule{{Tier: "sender", Rule: trouble, Agent: "main", Line: 3}, {Tier: "default", Rule: "default_agent", Agent: "main"}},
		Findings: []route.Finding{{Warning: true, Error: config.Error{Key: "routing.senders", Problem: "brackets are read as a glob " + trouble}}},
		Choices:  []gateway.RouteChoice{{Agent: "main", Least: "member"}}, Policies: []string{"night"}, Channels: []string{"irc", "web", "terminal"},
	}, nil
}

func (someAgents) TryRoute(_ context.Context, t gateway.RouteTry) (gateway.RouteExplanation, error) {
	m, err := t.Message([]string{"irc", "web", "terminal"})
	return gateway.RouteExplanation{
		Sender: m.SenderKey(), Role: "guest", Identity: "proved", Admission: "allowed", Tier: "glob", Rule: "irc:*", Line: 4, Candidate: "main", Agent: "night", Policy: "night",
		Reason: "it is late " + m.Text, Policies: []gateway.PolicyAnswer{{Name: "night", Answer: "agent night", Reason: "it is late", Fuel: 1234, Nanos: 56789}},
	}, err
}

func (someAgents) Models(context.Context) ([]gateway.ModelTier, error) {
	return []gateway.ModelTier{
		{ModelStatus: gateway.ModelStatus{Tier: "default", Provider: "openai", Model: trouble, State: "open", Until: time.Now().Add(time.Minute), Failures: 3, Last: "auth"}, Fallbacks: []string{"fast"}, Agents: []string{"main"}, Reasoning: "off"},
		{ModelStatus: gateway.ModelStatus{Tier: "fast", Provider: "demo", State: "closed"}, Prices: &gateway.ModelPrices{Input: 1, Output: 10}, Fallbacks: []string{}, Agents: []string{}, Reasoning: "off"},
	}, nil
}

func (someAgents) TestModel(_ context.Context, tier string, _ message.SenderKey) (gateway.ModelTest, error) {
	if tier == "fast" {
		return gateway.ModelTest{Works: true, Text: "ready " + trouble, Millis: 12, Tokens: 9}, nil
	}
	return gateway.ModelTest{Fault: "the key is refused", Detail: "copy it again"}, nil
}

// agentRooms is a gateway with the areas of this file: agents as described, and notes, schedules and usage in a real store.
func agentRooms(t *testing.T) (*fixture, *sqlite.Store) {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	path := filepath.Join(dir, "flynn.toml")
	text := "[store]\ndir = \"" + dir + "\"\n[routing]\ndefault_agent = \"main\"\n[agent_configs.main]\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[access]\nowners = [\"irc:ann\"]\n[channels.irc]\nplugin = \"irc\"\nenabled = false\n" +
		"[[schedules]]\nname = \"report\"\nagent = \"main\"\ncron = \"30 2 * * *\"\ntimezone = \"America/New_York\"\ntext = \"\\u202e<img>\"\nas = \"terminal:owner\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	holder, err := config.NewHolder(path, os.Getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	scheduler := schedule.New(schedule.Config{
		Store: store, Log: slog.New(slog.DiscardHandler), Submit: func(context.Context, message.Message) error { return nil }, Replied: func(string, message.Reply) {},
	})
	scheduler.Set(schedule.Entries(holder.Current()))
	holder.Subscribe(func(_ context.Context, _, next *config.Config) (commit, rollback func(), err error) {
		return func() { scheduler.Set(schedule.Entries(next)) }, nil, nil
	})
	log := slog.New(slog.DiscardHandler)
	now := func() backend.InForce {
		c := holder.Current()
		return backend.InForce{Config: c, Generation: &agent.Generation{
			Names: []string{"main"}, Agents: map[string]*agent.Agent{"main": {Budget: budget.Amount{Tokens: 1000}}}, Budgets: budget.Limits{Sender: budget.Amount{Tokens: 99}},
		}}
	}
	d := open(t, gatewaytest.Demo)
	d.stop()
	d.front.Agents, d.front.Routing, d.front.Models = someAgents{}, someAgents{}, someAgents{}
	d.front.Memory = backend.Memory{Store: store, Log: log}
	d.front.Schedules = backend.Schedules{Scheduler: scheduler, Editor: edit.InHost(holder, edit.EditorConfig{Getenv: os.Getenv})}
	d.front.Usages = backend.Usage{Store: store, Accounts: budget.New(budget.Config{Store: store}), Current: now}
	d.start()
	t.Cleanup(func() { d.stop() })
	return d, store
}

// TestAgentRooms opens the rooms of agents, models, schedules and memory in a real browser, with rude data.
func TestAgentRooms(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{{"agents", roomAgents}, {"routing", roomRouting}, {"models", roomModels}, {"usage", roomUsage}, {"schedules", roomSchedules}, {"memory", roomMemory}} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b) })
	}
}

// fill fills a field by its label as a person does.
func (p pageDriver) fill(label, text string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("label")].filter((l) => l.textContent === %q && l.checkVisibility()).at(-1)`, label)
	p.until(find)
	p.eval(fmt.Sprintf(`(() => { const field = document.getElementById(%s.htmlFor); field.value = %q; field.dispatchEvent(new Event("input", { bubbles: true })); })()`, find, text))
}

// press presses the last visible button with a text.
func (p pageDriver) press(text string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("#room button")].filter((b) => b.textContent.trim() === %q && b.checkVisibility() && !b.disabled).at(-1)`, text)
	p.until(find)
	p.eval(`((button) => { button.focus(); button.click(); })(` + find + `)`) // as the keyboard does
	p.placed()
}

// dare presses a button that asks first, and answers the question.
func (p pageDriver) dare(text string) {
	p.t.Helper()
	p.press(text)
	p.until(`document.querySelector("#room dialog[open]")`)
	p.press(text)
}

func (p pageDriver) says(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector("#room").textContent.includes(%q)`, text))
}

func roomAgents(t *testing.T, b context.Context) {
	d, _ := agentRooms(t)
	p := room(t, b, d, "agents", "Agents")
	p.until(`document.querySelectorAll("#room tbody tr").length === 2`)
	p.want(`document.querySelectorAll("#room img").length`, "0")
	p.says("U+202E")
	p.looks("agents")
	p.eval(`[...document.querySelectorAll("#room td a")].at(-1).click()`) // of a name that no configuration has
	p.says("the address has characters that no name has")
	p.eval(`location.hash = "agents/of/main"`)
	p.until(`document.querySelectorAll("#room tbody tr").length === 200`)
	p.want(`document.querySelectorAll("#room .room-column img").length`, "0")
	p.says("asks on the host")
	p.fill("Find one of 200 tools", "tool19")
	p.until(`document.querySelectorAll("#room tbody tr").length === 10`)
	p.says("unknown of $1.50 used")
	p.looks("agent")
}

func roomRouting(t *testing.T, b context.Context) {
	d, _ := agentRooms(t)
	p := room(t, b, d, "agents/routing", "Agents")
	p.says("brackets are read as a glob")
	p.fill("Sender", "ann")
	p.fill("Text", "hi "+trouble)
	p.press("Explain")
	p.says("Agent night answers.")
	p.says("1,234")
	p.want(`document.querySelectorAll("#room .room-column img").length`, "0")
	p.looks("routing")
	p.fill("Sender", "")
	p.press("Explain")
	p.until(`document.querySelector("#room .trouble")?.textContent.includes("sender")`)
}

func roomModels(t *testing.T, b context.Context) {
	d, _ := agentRooms(t)
	p := room(t, b, d, "models", "Models")
	p.says("left alone after failures")
	p.says("unknown: write them under")
	p.press("Test") // the last is fast
	p.says("price unknown")
	p.looks("models")
	p.press("Budgets")
	p.says("default have no prices")
	p.says("no limit")
	p.looks("budgets")
}

func roomUsage(t *testing.T, b context.Context) {
	d, store := agentRooms(t)
	p := room(t, b, d, "models/usage", "Models")
	p.says("No model was called in this time.")
	var year []usage.Row
	for day := range 365 {
		for i := range 10 {
			at := time.Now().Add(-time.Duration(day) * 24 * time.Hour)
			row := usage.Row{At: at, Day: "x", Sender: "irc:ann", Agent: fmt.Sprint(trouble, i), Provider: "p", Model: "m", Attempt: 1, Input: int64(100 * (i + 1)), Cost: int64(i) * 1e7}
			year = append(year, row)
		}
	}
	if err := store.AddUsage(t.Context(), year); err != nil {
		t.Fatal(err)
	}
	p.eval(`location.reload()`)
	p.until(`document.querySelectorAll("#room .chart").length === 3`)
	p.says("the rest")
	p.says("have no price")
	p.want(`document.querySelectorAll("#room .room-column img").length`, "0")
	p.until(`document.querySelectorAll("#room .chart:first-of-type .chart-legend li").length >= 8`)
	p.eval(`document.querySelector("#room .chart svg").focus()`)
	p.do(chromedp.KeyEvent(kb.End))
	p.until(`document.querySelector("#room .chart-at").textContent.includes("the rest at least")`)
	p.looks("usage")
	p.fill("For each", "month")
	p.until(`document.querySelectorAll("#room .chart > svg")[0]?.querySelectorAll("g").length === 13`)
	p.eval(`document.querySelectorAll("#room .chart details").forEach((d) => { d.open = true; })`)
	p.says("unknown")
	p.looks("usage-table")
}

func roomSchedules(t *testing.T, b context.Context) {
	d, _ := agentRooms(t)
	p := room(t, b, d, "schedules", "Schedules")
	p.says("30 2 * * * (America/New_York)")
	p.looks("schedules")
	p.press("New schedule")
	p.fill("Name", "../bad")
	p.fill("Text", "hello \u202e")
	p.fill("Times", "0 7 * * 1-5")
	p.fill("Zone of the times", "Europe/Berlin")
	p.until(`document.querySelectorAll("#room dialog .plain li").length === 5`)
	p.press("Save to flynn.toml")
	p.until(`document.querySelector("#room dialog .field .trouble")?.textContent.includes("bad name")`)
	p.axe("the form")
	p.fill("Delay at random", "soon ]] \"x\"")
	p.press("Save to flynn.toml")
	p.until(`[...document.querySelectorAll("#room dialog .field .trouble")].some((x) => x.textContent.includes("soon"))`)
	p.fill("Delay at random", "5m")
	p.fill("Missed runs", "all")
	p.fill("Quiet answer", "]]\n\"no\" \x7f")
	p.fill("Name", "morning")
	p.press("Save to flynn.toml")
	p.until(`location.hash === "#schedules/morning" && !document.querySelector("dialog[open]")`)
	p.says("hello U+202E")
	p.says("are made up for")
	if s := d.schedule(t, "morning"); s.CatchUp != "all" || s.Jitter != "5m0s" || s.Quiet != "]]\"no\" \x7f" { // a line of a form has no line breaks
		t.Errorf("%+v", s)
	}
	p.press("Pause")
	p.fill("Why", "on holiday") // which waits for the dialog
	p.press("Pause")
	p.says("Paused: web:owner: on holiday")
	p.looks("schedule")
	p.press("Resume")
	p.until(`document.querySelectorAll("#room .facts .plain li").length === 5`)
	p.press("Run now")
	p.until(`document.querySelectorAll("#room tbody tr").length === 1`)
	p.press("Run now")
	p.until(`document.querySelector("#room .trouble")?.textContent.includes("running already")`)
	p.press("Change")
	p.fill("Runs", "every")
	p.fill("Every", "90m")
	p.fill("Quiet answer", "")
	p.press("Save to flynn.toml")
	p.says("every 1h30m0s")
	if s := d.schedule(t, "morning"); s.CatchUp != "all" || s.Quiet != "" {
		t.Errorf("%+v", s)
	}
	p.dare("Remove")
	p.until(`location.hash === "#schedules"`)
	p.until(`document.querySelectorAll("#room tbody tr").length === 1`)
}

// schedule is one of the gateway's.
func (d *fixture) schedule(t *testing.T, name string) gateway.ScheduleStatus {
	t.Helper()
	all, err := d.front.Schedules.Schedules(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s gateway.ScheduleStatus) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no schedule %q in %+v", name, all)
	}
	return all[i]
}

func roomMemory(t *testing.T, b context.Context) {
	d, store := agentRooms(t)
	var writes errgroup.Group
	writes.SetLimit(100) // the store commits those together that wait together
	for i := range 10_000 {
		n := memory.Note{Agent: "main", Person: "irc:" + trouble, Key: fmt.Sprint("k", i), Text: "the cat " + trouble, By: "irc:bob", Turn: "t1", Labels: []string{"web:x"}, Updated: time.Now().Add(time.Duration(i))}
		if i == 77 {
			n.Text = strings.Repeat("dog ", 4000)
		}
		writes.Go(func() error { return store.WriteNote(t.Context(), n, 0) })
	}
	if err := writes.Wait(); err != nil {
		t.Fatal(err)
	}
	changes := d.follow(store)
	p := room(t, b, d, "memory", "Memory")
	p.until(`document.querySelectorAll("#room .note").length === 50`)
	p.want(`document.querySelectorAll("#room .room-column img").length`, "0")
	p.press("More notes")
	p.until(`document.querySelectorAll("#room .note").length === 100`)
	p.looks("memory")
	p.fill("Words", "dog")
	p.until(`document.querySelectorAll("#room .note").length === 1`)
	p.press("Correct")
	// A note that comes meanwhile does not disturb who writes.
	if err := store.WriteNote(t.Context(), memory.Note{Agent: "main", Key: "late", Text: "a late dog", By: "irc:bob", Updated: time.Now().Add(-time.Hour)}, 0); err != nil {
		t.Fatal(err)
	}
	changes.Note("memory", "late")
	time.Sleep(time.Second / 2) // for what must not happen
	p.want(`document.querySelectorAll("#room .note").length`, "1")
	p.press("Cancel")
	p.until(`document.querySelectorAll("#room .note").length === 2`)
	p.press("Correct")
	p.fill("Text", "a \u202e dog of three")
	p.axe("the correction")
	p.press("Save")
	p.says("a U+202E dog of three")
	p.says("corrected by web:owner")
	for left := 1; left >= 0; left-- {
		p.dare("Forget")
		p.until(fmt.Sprintf(`document.querySelectorAll("#room .note").length === %d`, left))
	}
	p.placed()
	if left, err := store.SearchNotes(t.Context(), memory.NoteQuery{Key: "k77"}); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
