package host

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
)

// TestGenerationAndPoliciesChangeTogether: a reload that takes a policy away and narrows the tools in its stead must not be seen
// with the policy gone and the tools still there.
func TestGenerationAndPoliciesChangeTogether(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	write := func(profile string, more string) *config.Config {
		t.Helper()
		text := "[store]\ndir = \"" + dir + "/s\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\ntool_profile = \"" + profile + "\"\n" + more
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, os.Getenv, Checks()...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// The smallest module there is: it loads as no policy, so it is in force as one that denies.
	if err := os.WriteFile(filepath.Join(dir, "p.wasm"), []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := write("full", "[[policies]]\nname = \"p\"\npath = \"p.wasm\"\nkinds = [\"tool\"]\n")
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	guarded := func() (full, guard bool) {
		g, p := h.current.InForce()
		defer p.Release()
		_, records := p.Tool(context.Background(), policy.ToolFacts{})
		return g.Agents["a"].Offered.Has("shell.exec"), len(records) > 0
	}
	_, rollback, err := h.stage(t.Context(), before, write("minimal", ""))
	if err != nil {
		t.Fatal(err)
	}
	if full, guard := guarded(); !full || !guard {
		t.Errorf("before the commit: tools %v, policy %v", full, guard)
	}
	rollback()
	if full, guard := guarded(); !full || !guard {
		t.Errorf("after a rollback: tools %v, policy %v", full, guard)
	}
	commit, _, err := h.stage(t.Context(), before, write("minimal", ""))
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if full, guard := guarded(); full || guard {
		t.Errorf("after the commit: tools %v, policy %v", full, guard)
	}
}
