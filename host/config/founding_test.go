package config

import (
	"path/filepath"
	"testing"
)

// TestFoundingRouting: "default_agent is optional there: without it and without a match, no agent answers" (founding documents, row 9).
// Package route has the other half.
func TestFoundingRouting(t *testing.T) {
	for _, src := range []string{
		"[agent_configs.main]\n",
		"[agent_configs.main]\n[routing.senders]\n\"terminal:ann\" = \"main\"\n",
	} {
		c, err := Load(write(t, filepath.Join(t.TempDir(), "flynn.toml"), src, 0o600), environ("HOME", t.TempDir()))
		if err != nil || c.Routing.DefaultAgent != "" {
			t.Errorf("%v\nfrom\n%s", err, src)
		}
	}
}

// TestFoundingCompaction: "compaction can be switched off there" with threshold_pct = 0 (founding documents, row 11). Package agent has
// the other half.
func TestFoundingCompaction(t *testing.T) {
	src := "[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n[compaction]\nthreshold_pct = 0\n"
	c, err := Load(write(t, filepath.Join(t.TempDir(), "flynn.toml"), src, 0o600), environ("HOME", t.TempDir()))
	if err != nil || c.Compaction.ThresholdPct != 0 {
		t.Fatalf("threshold_pct = 0 is %v, %v", c, err)
	}
}
