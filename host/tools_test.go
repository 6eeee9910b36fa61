package host

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

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
)

// buildDice builds the example's program into a folder that runs as a development plugin.
func buildDice(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	manifest, err := os.ReadFile("../examples/dice-tools/plugin.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	hosttest.BuildPlugin(t, "examples/dice-tools", dir)
	return dir
}

// TestProvidersToolsAreCalledUnderTheHostsRules runs a real provider: its tool is offered once it runs, is called by a turn, and asks a
// person as long as the configuration does not say that it is harmless.
func TestProvidersToolsAreCalledUnderTheHostsRules(t *testing.T) {
	dir, dice := t.TempDir(), buildDice(t)
	path := filepath.Join(dir, "flynn.toml")
	write := func(rules string) {
		t.Helper()
		text := fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = "127.0.0.1:0"
[routing]
default_agent = "full"
[agent_configs.full]
tool_profile = "full"
[agent_configs.none]
tool_profile = "coding"
[plugins.dev_paths]
dice-tools = %q
[tools.dice]
plugin = "dice-tools"
max_dice = 3
%s
`, filepath.Join(dir, "s"), dice, rules)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	hangup := make(chan os.Signal, 1)
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler), Hangup: hangup})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	b := h.backend()
	var dicey gateway.ToolsStatus
	eventually(t, "the tool is offered", func() bool {
		for _, s := range b.Status.Status(t.Context()).Tools {
			dicey = s
		}
		return len(dicey.Tools) == 1 && len(dicey.Tools[0].Agents) == 1
	})
	one := dicey.Tools[0]
	if one.Name != "dice.roll" || one.Effect != "execute" || one.Claims != "read" || !slices.Equal(one.Agents, []string{"full"}) || !dicey.OK {
		t.Errorf("status: %+v", dicey)
	}

	say := func(id, text string) {
		t.Helper()
		m := message.Message{
			Channel: gateway.ChannelWeb, EventID: id, Text: text, Conversation: message.Conversation{ID: "c", Kind: message.DM},
			Sender: message.Sender{ID: "me"}, Addressed: true, ReceivedAt: time.Now(),
		}
		if err := b.Conversations.Submit(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	last := func() string {
		list, err := b.Conversations.History(t.Context(), gateway.ChannelWeb, "c", 1)
		if err != nil || len(list) == 0 || !list[0].Final() {
			return ""
		}
		return list[0].Text
	}

	say("1", `!tool dice.roll {"sides": 1000, "dice": 3}`)
	eventually(t, "a person is asked", func() bool {
		waiting, err := b.Approvals.Approvals(t.Context())
		if err != nil || len(waiting) == 0 {
			return false
		}
		if a := waiting[0]; a.Tool != "dice.roll" || !strings.Contains(strings.Join(a.Reasons, " "), "execute tools of dice") {
			t.Errorf("asked for %+v", a)
		}
		return b.Approvals.Decide(t.Context(), waiting[0].ID, true, "web:me") == nil
	})
	eventually(t, "the tool has run", func() bool { return strings.Contains(last(), "[") })

	write("effect = \"read\"\nprofiles = [\"coding\"]\n")
	hangup <- os.Interrupt
	eventually(t, "the rules are in force", func() bool {
		for _, s := range b.Status.Status(t.Context()).Tools {
			dicey = s
		}
		return dicey.Tools[0].Effect == "read"
	})
	if !slices.Equal(dicey.Tools[0].Agents, []string{"none"}) {
		t.Errorf("the tool is offered to %q", dicey.Tools[0].Agents)
	}
	if g := h.current.Load(); !g.Agents["none"].Offered.Has("dice.roll") || g.Agents["full"].Offered.Has("dice.roll") {
		t.Error("profiles are not obeyed")
	}
	if err := h.plugins.Remove("dice"); err != nil {
		t.Fatal(err)
	}
	left, _ := h.current.Load().Registry.Get("dice.roll")
	if why := left.(tool.Revocable).Revoked(); !strings.Contains(why, "not running") {
		t.Errorf("a tool whose provider is down says %q", why)
	}
	if err := h.plugins.Restart("dice"); err == nil {
		t.Error("a removed instance restarts")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute) // a real program in a container takes twenty seconds for an answer where the machine has other work
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
