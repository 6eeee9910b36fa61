package assemble

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// load reads a configuration with the checks of this package.
func load(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flynn.toml")
	if err := os.WriteFile(path, []byte("[store]\ndir = \"s\"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path, os.Getenv, CheckTools, CheckPrograms)
}

func TestChecks(t *testing.T) {
	for _, c := range []struct{ name, agent, want string }{
		{"chat", `kind = "chat"`, ""},
		{"a provider with the name of own tools", "[tools.shell]\nplugin = \"mcp\"", "shell.* are Flynn's own tools"},
		{"an override for a provider", "tool_overrides.deny = [\"ext.erase\"]\n[tools.ext]\nplugin = \"mcp\"", ""},
		{"a misspelt deny", `tool_overrides.deny = ["shell.exce"]`, `did you mean "shell.exec"`},
		{"every tool has a name", `tool_overrides.deny = ["result.read", "message.attach", "agent.delegate", "memory.*"]`, ""},
		{"a program without words", "kind = \"cli\"", "cli"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, "[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\n"+c.agent+"\n")
			var bad config.Errors
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &bad) || !strings.Contains(bad.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The schemas of Flynn's own tools are compiled when they are needed, so that none is wrong is found out here.
func TestOwnToolsHaveSoundSchemas(t *testing.T) {
	own, err := OwnTools(builtin.Unconnected())
	if err != nil {
		t.Fatal(err)
	}
	checked := tool.NewRegistry()
	for _, spec := range own.List() {
		one, _ := own.Get(spec.Name)
		if err := checked.Register(one); err != nil {
			t.Error(err)
		}
	}
}

// assembled are the agents of a configuration, without providers of tools.
func assembled(t *testing.T, text string) *agent.Generation {
	t.Helper()
	c, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	own, err := OwnTools(builtin.Unconnected())
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Config{Log: slog.New(slog.DiscardHandler)}).Generation(c, Parts{Registry: own})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDelegationIsOfferedWithDelegates(t *testing.T) {
	g := assembled(t, `
[routing]
default_agent = "main"
[agent_configs.main]
delegates = ["helper"]
[agent_configs.helper]
tool_profile = "full"
[agent_configs.careful]
delegates = ["helper"]
tool_overrides = { deny = ["agent.*"] }
`)
	for name, want := range map[string]bool{"main": true, "helper": false, "careful": false} {
		a := g.Agents[name]
		told := false
		for _, tl := range a.Tools {
			told = told || tl.Name == "agent.delegate" && strings.Contains(string(tl.Schema), `"enum":["helper"]`)
		}
		if a.Offered.Has("agent.delegate") != want || told != want {
			t.Errorf("%s: offered %v, told %v; want %v", name, a.Offered.Has("agent.delegate"), told, want)
		}
	}
}

// TestOfflineSandboxes: what is printed where no network is comes from nowhere else.
func TestOfflineSandboxes(t *testing.T) {
	g := assembled(t, `
[routing]
default_agent = "main"
[sandbox]
enabled = true
[sandboxes.open]
network = "bridge"
[agent_configs.main]
[agent_configs.program]
kind = "cli"
[agent_configs.program.cli]
command = ["agent"]
[agent_configs.online]
kind = "cli"
[agent_configs.online.cli]
command = ["agent"]
allowlist = ["example.com"]
`)
	for name, want := range map[string]bool{"": true, "open": false, "cli:program": true, "cli:online": false} {
		if got := g.Offline[name]; got != want {
			t.Errorf("sandbox %q: offline %v, want %v", name, got, want)
		}
	}
	if a := g.Agents["program"]; a.Sandbox != "cli:program" || a.CLI == nil || len(a.Offered) != 1 {
		t.Errorf("the program is %+v", a)
	}
}

func TestDailyBudgets(t *testing.T) {
	got := dailyBudgets(config.Budgets{SenderTokensPerDay: 1, SenderUSDPerDay: 0.1, AgentTokensPerDay: 2, HostUSDPerDay: 2.5})
	want := budget.Limits{Sender: budget.Amount{Tokens: 1, Cost: 100_000_000}, Agent: budget.Amount{Tokens: 2}, Host: budget.Amount{Cost: 2_500_000_000}}
	if got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
	if agent.Dollars(1e300) <= 0 || agent.Dollars(-1) != 0 {
		t.Error("dollars overflow")
	}
}
