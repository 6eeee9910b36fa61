package backend

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool"
)

func TestIntro(t *testing.T) {
	intro := func(kind, provider, tier string, offered ...string) gateway.Intro {
		c := &config.Config{
			Path: "/etc/flynn.toml", Routing: config.Routing{DefaultAgent: "a"},
			Agents: map[string]config.Agent{"a": {Kind: kind, ModelTier: tier}},
			Models: map[string]config.Model{tier: {Provider: provider}},
		}
		g := &agent.Generation{Agents: map[string]*agent.Agent{"a": {Name: "a", Offered: tool.NewSet(offered...)}}}
		g.Table, _ = route.New(c)
		return Status{Current: func() InForce { return InForce{Generation: g, Config: c} }}.Intro("web", "web:owner")
	}
	for name, tt := range map[string]struct {
		got    gateway.Intro
		notice string // part of it
		second string
	}{
		"the demo with a shell":    {intro("chat", "demo", "default", "shell.exec"), "flynn --config /etc/flynn.toml model add default", "!sh uname -a"},
		"the demo without a shell": {intro("chat", "demo", "fast", "memory.write"), "model add fast", "!stream 300 one word after the other"},
		"the demo with programs":   {intro("code", "demo", "default"), "demo model", "!py print(6 * 7)"},
		"a model with a shell":     {intro("chat", "openai", "default", "shell.exec", "memory.write"), "", "Run uname -a and tell me what it says."},
		"a model with notes":       {intro("chat", "openai", "default", "memory.write"), "", "Remember that I like short answers."},
		"a model alone":            {intro("chat", "openai", "default"), "", "Explain in two sentences what a sandbox is."},
		"an agent CLI":             {intro("cli", "demo", "default"), "", "Run uname -a and tell me what it says."},
	} {
		if tt.notice == "" != (tt.got.Notice == "") || !strings.Contains(tt.got.Notice, tt.notice) {
			t.Errorf("%s: the notice is %q, want %q", name, tt.got.Notice, tt.notice)
		}
		if len(tt.got.Try) != 3 || tt.got.Try[1].Text != tt.second || tt.got.Try[2].Text != "/status" {
			t.Errorf("%s: to try are %+v", name, tt.got.Try)
		}
	}
	nobody := Status{Current: func() InForce {
		c := &config.Config{Path: "f"}
		table, _ := route.New(c)
		return InForce{Generation: &agent.Generation{Table: table}, Config: c}
	}}.Intro("web", "web:owner")
	if len(nobody.Try) != 0 || !strings.Contains(nobody.Notice, "default_agent") {
		t.Errorf("where no agent answers: %+v", nobody)
	}
}
