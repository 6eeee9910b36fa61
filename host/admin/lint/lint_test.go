package lint

import (
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const base = `[agent_configs.main]
[agent_configs.coder]
sandbox = "box"
[sandbox]
enabled = true
[sandboxes.box]
[sandboxes.strict]
[routing]
default_agent = "main"
`

// set writes a configuration with these policies, and returns it as a host has it. In the text, TOOL, ROUTE and BOTH stand
// for modules that export these hooks.
func set(t *testing.T, policies string) (*config.Config, []policy.Source) {
	t.Helper()
	dir := t.TempDir()
	answer := w.I64(0)
	for name, module := range map[string][]byte{
		"tool.wasm":  w.Policy(1).Hook("flynn_tool", "", answer),
		"route.wasm": w.Policy(1).Hook("flynn_route", "", answer),
		"junk.wasm":  []byte("junk"),
	} {
		put(t, filepath.Join(dir, name), module)
	}
	path := filepath.Join(dir, "flynn.toml")
	put(t, path, []byte(base+policies))
	c, err := config.Load(path, func(string) string { return dir })
	if err != nil {
		t.Fatal(err)
	}
	return c, configured.Sources(c, slog.New(slog.DiscardHandler))
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPolicies(t *testing.T) {
	head := func(name, module, kinds string) string {
		return fmt.Sprintf("[[policies]]\nname = %q\npath = \"%s.wasm\"\nkinds = [%s]\n", name, module, kinds)
	}
	guard := func(name, more string) string { return head(name, "tool", `"tool"`) + more }
	for _, c := range []struct {
		name     string
		policies string
		want     []string // "LINE KEY PROBLEM", as far as it goes
	}{
		{"nothing", "", nil},
		{"all is well", guard("a", "agents = [\"main\"]\nchannels = [\"web\"]\n[policies.data]\nsandbox = \"strict\"\n"), nil},
		{"no such agent", guard("a", "agents = [\"main\", \"codr\"]\n"), []string{`14 policies[0].agents[1] no agent matches "codr" (did you mean "coder"?)`}},
		{"no such channel", guard("a", "channels = [\"irc*\"]\n"), []string{`14 policies[0].channels[0] no channel matches "irc*"`}},
		{"a kind that the module lacks", head("a", "tool", `"route", "tool"`), []string{`13 policies[0].kinds the module decides tool and not route`}},
		{"another kind", head("a", "route", `"tool"`), []string{`13 policies[0].kinds the module decides route and not tool`}},
		{"no module at all", head("a", "junk", `"tool"`), []string{`12 policies[0].path the module cannot be loaded`}},
		{"a route policy for an agent that nobody is routed to", head("a", "route", `"route"`) + "agents = [\"coder\"]\n",
			[]string{`14 policies[0].agents [routing] sends no message to these agents`}},
		{"a tool policy for it", guard("a", "agents = [\"coder\"]\n"), nil},
		{"fails open", guard("a", "dangerously_allow_on_error = true\n"), []string{`14 policies[0].dangerously_allow_on_error calls pass this policy where it fails`}},
		{"no such sandbox", guard("a", "agents = [\"main\"]\n[policies.data]\nsandbox = \"stric\"\n"), []string{`16 policies[0].data.sandbox no sandbox "stric"`}},
		{"not that of the agent", guard("a", "agents = [\"coder\"]\n[policies.data]\nsandbox = \"strict\"\n"),
			[]string{`16 policies[0].data.sandbox agent coder has its own sandbox, "box"`}},
		{"two sandboxes", guard("a", "agents = [\"main\"]\n[policies.data]\nsandbox = \"strict\"\n") + guard("b", "agents = [\"m*\"]\n[policies.data]\nsandbox = \"box\"\n"),
			[]string{`23 policies[1].data.sandbox it and policy "a" demand different sandboxes (their data name the sandboxes "strict" and "box"; agent main, channel console)`}},
		{"two sandboxes at different places", guard("a", "agents = [\"main\"]\nchannels = [\"web\"]\n[policies.data]\nsandbox = \"strict\"\n") +
			guard("b", "agents = [\"main\"]\nchannels = [\"terminal\"]\n[policies.data]\nsandbox = \"box\"\n"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, sources := set(t, c.policies)
			cfg.Agents["main"] = func(a config.Agent) config.Agent { a.Sandbox.Enabled = false; return a }(cfg.Agents["main"])
			match(t, Policies(cfg, sources), c.want)
		})
	}
}

func match(t *testing.T, got []config.Error, want []string) {
	t.Helper()
	var lines []string
	for _, f := range got {
		lines = append(lines, fmt.Sprintf("%d %s %s (%s)", f.Line, f.Key, f.Problem, f.Hint))
		if f.Hint == "" || f.File == "" {
			t.Errorf("%v says not what to do, or where", f)
		}
	}
	if len(lines) != len(want) {
		t.Fatalf("findings are %q, want %q", lines, want)
	}
	for i := range lines {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("finding %q, want %q", lines[i], want[i])
		}
	}
}

// answering is a module that answers one thing: an agent, a sandbox, or nothing of either.
func answering(hook string, decision int64, field abi.Field, name string) []byte {
	m := w.Policy(1)
	if name == "" {
		return m.Hook(hook, "", w.I64(decision))
	}
	frame := output(field, name)
	m.Data(100, frame)
	size := int32(len(frame))
	return m.Hook(hook, "", w.I32(4096), w.I32(100), w.I32(size), w.Op(0xfc, 10, 0, 0), w.I64(decision|int64(size)<<32))
}

// output is an output frame of one string.
func output(id abi.Field, s string) []byte {
	f := []byte{0x46, 0x4c, 0x4e, 0x31, abi.FrameOutput, 0, 1, 0, byte(28 + len(s)), 0, 0, 0, 0, 0, 0, 0}
	f = append(f, byte(id), 0, abi.TypeString, 0, 28, 0, 0, 0, byte(len(s)), 0, 0, 0)
	return append(f, s...)
}

// beside puts a policy's folder with cases into place.
func beside(t *testing.T, dir, name, kind string, module []byte, cases int) (toml string) {
	t.Helper()
	folder := filepath.Join(dir, name)
	put(t, filepath.Join(folder, "policy.wasm"), module)
	put(t, filepath.Join(folder, "policy.toml"), fmt.Appendf(nil, "name = %q\nabi = \"flynn 1\"\nkinds = [%q]\nlanguage = \"wasm\"\nversion = \"1.0.0\"\ndescription = \"x\"\n", name, kind))
	var text strings.Builder
	for i := range cases {
		want := "abstain = true"
		if kind == "tool" {
			want = "unrestricted = true"
		}
		fmt.Fprintf(&text, "[[case]]\nname = \"c%d\"\n[case.facts]\ntext = \"%d\"\ntool = \"shell.exec\"\neffect = \"execute\"\n[case.want]\n%s\n", i, i, want)
	}
	put(t, filepath.Join(folder, "cases", "c.toml"), []byte(text.String()))
	return fmt.Sprintf("[[policies]]\nname = %q\npath = %q\nkinds = [%q]\n", name, filepath.Join(folder, "policy.wasm"), kind)
}

func TestChain(t *testing.T) {
	sandbox := func(name string) []byte { return answering("flynn_tool", abi.ToolSandbox, abi.OutSandbox, name) }
	drop := answering("flynn_route", abi.RouteDrop, 0, "")
	abstain := answering("flynn_route", abi.RouteAbstain, 0, "")
	type one struct {
		name, kind string
		module     []byte
		cases      int
		more       string
	}
	for _, c := range []struct {
		name  string
		chain []one
		want  []string
		cases int
	}{
		{"nothing", nil, nil, 0},
		{"two sandboxes", []one{{"a", "tool", sandbox("box"), 1, ""}, {"b", "tool", sandbox("strict"), 1, ""}},
			[]string{`14 policies[1] it and policy "a" demand different sandboxes ("box" and "strict" in its cases`}, 2},
		{"two sandboxes for different agents", []one{{"a", "tool", sandbox("box"), 1, "agents = [\"main\"]\n"}, {"b", "tool", sandbox("strict"), 1, "agents = [\"coder\"]\n"}}, nil, 2},
		{"the same sandbox", []one{{"a", "tool", sandbox("box"), 1, ""}, {"b", "tool", sandbox("box"), 1, ""}}, nil, 2},
		{"shadowed", []one{{"a", "route", drop, 5, ""}, {"b", "route", abstain, 3, ""}}, []string{`15 policies[1].name it was never asked: the earlier policy "a" has decided everything in its cases, 8 times`}, 8},
		{"too few cases to say", []one{{"a", "route", drop, 2, ""}, {"b", "route", abstain, 1, ""}}, nil, 3},
		{"an earlier one that abstains", []one{{"a", "route", abstain, 5, ""}, {"b", "route", drop, 3, ""}}, nil, 8},
		{"shadowed only on one channel", []one{{"a", "route", drop, 5, "channels = [\"web\"]\n"}, {"b", "route", abstain, 3, ""}}, nil, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			text := ""
			for _, p := range c.chain {
				text += beside(t, dir, p.name, p.kind, p.module, p.cases) + p.more
			}
			cfg, sources := set(t, text)
			found, cases, err := Chain(t.Context(), cfg, sources)
			if err != nil || cases != c.cases {
				t.Fatalf("%d cases (%v), want %d", cases, err, c.cases)
			}
			match(t, found, c.want)
		})
	}
}

func TestLog(t *testing.T) {
	row := func(kind, name, frame, answer string) journal.Decision {
		return journal.Decision{Kind: kind, Policy: name, Frame: []byte(frame), Answer: answer}
	}
	repeat := func(n int, rows ...journal.Decision) (all []journal.Decision) {
		for i := range n {
			for _, r := range rows {
				r.Frame = fmt.Append(r.Frame, i)
				all = append(all, r)
			}
		}
		return all
	}
	const two = "[[policies]]\nname = \"a\"\npath = \"tool.wasm\"\nkinds = [\"tool\", \"route\"]\n[[policies]]\nname = \"b\"\npath = \"tool.wasm\"\nkinds = [\"tool\", \"route\"]\n"
	for _, c := range []struct {
		name string
		rows []journal.Decision
		want []string
		seen int
	}{
		{"empty", nil, nil, 0},
		{"two sandboxes for one call", repeat(2, row("tool", "a", "f", "ask, sandbox box"), row("tool", "b", "f", "sandbox strict"), row("enforce", "host", "", "deny")),
			[]string{`14 policies[1] it and policy "a" demand different sandboxes ("box" and "strict" in the decision log`}, 4},
		{"two sandboxes for two calls", []journal.Decision{row("tool", "a", "f", "sandbox box"), row("tool", "b", "g", "sandbox strict")}, nil, 2},
		{"a sandbox without a name", []journal.Decision{row("tool", "a", "f", "sandbox"), row("tool", "b", "f", "sandbox strict")}, nil, 2},
		{"always decided", repeat(6, row("route", "a", "f", "drop")), []string{`15 policies[1].name it was never asked: the earlier policy "a" has decided everything in the decision log, 6 times`}, 6},
		{"mostly decided", append(repeat(6, row("route", "a", "f", "drop")), row("route", "a", "f", "abstain"), row("route", "b", "f", "abstain")), nil, 8},
		{"policies of yore", repeat(9, row("route", "old", "f", "drop")), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, sources := set(t, two)
			found, seen, err := Log(cfg, sources, each(c.rows))
			if err != nil || seen != c.seen {
				t.Fatalf("%d decisions (%v), want %d", seen, err, c.seen)
			}
			match(t, found, c.want)
		})
	}
}

func each(rows []journal.Decision) iter.Seq2[journal.Decision, error] {
	return func(yield func(journal.Decision, error) bool) {
		for r := range slices.Values(rows) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestNamed(t *testing.T) {
	dir := t.TempDir()
	text := beside(t, dir, "a", "tool", answering("flynn_tool", 0, 0, ""), 1)
	beside(t, dir, "b", "tool", answering("flynn_tool", 0, 0, ""), 1)
	cfg, sources := set(t, text)
	found, err := Named(cfg, sources, []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")})
	if err != nil {
		t.Fatal(err)
	}
	match(t, found, []string{"0 policies the tool policy b of "})
	if _, err := Named(cfg, sources, []string{t.TempDir()}); err == nil {
		t.Error("an empty folder is no policy")
	}
}
