package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// The log is read without a host, beside one that runs, and before any has run.
func TestSandboxEgress(t *testing.T) {
	dir := t.TempDir()
	path, kept := filepath.Join(dir, "flynn.toml"), filepath.Join(dir, "store")
	text := fmt.Sprintf("[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n[store]\ndir = %q\n", kept)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flynn := func(args ...string) string {
		t.Helper()
		var out, err bytes.Buffer
		code := run(context.Background(), append([]string{"flynn", "--config", path, "sandbox", "egress"}, args...), os.Getenv, nil, &out, &err)
		if code != 0 {
			t.Fatalf("flynn sandbox egress %q: exit code %d\n%s", args, code, err.String())
		}
		return out.String()
	}
	if got := flynn("--json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("before any host: %q", got)
	}
	s, err := sqlite.Open(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-3 * time.Hour)
	if err := s.AddEgress(t.Context(), []egress.Record{
		{ID: "1", At: old, Kind: "proxy", Session: "irc:#x:main", Method: "GET", Host: "example.com", Port: 443, Allowed: true, Up: 5, Down: 600, Ended: old},
		{ID: "2", At: time.Now(), Kind: "proxy", Session: "web:c:main", Method: "CONNECT", Host: "evil.org", Port: 443, Reason: "not\non \x1b[31mthe list"},
	}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if got := flynn(); !strings.Contains(got, "example.com:443") || !strings.Contains(got, "600") || strings.ContainsAny(got, "\x1b") {
			t.Errorf("%s: %q", when, got)
		}
		for _, args := range [][]string{{"--denied"}, {"--since", "1h"}, {"--session", "web:c:main"}, {"--limit", "1"}} {
			var got []egress.Record
			if err := json.Unmarshal([]byte(flynn(append(args, "--json")...)), &got); err != nil || len(got) != 1 || got[0].ID != "2" {
				t.Errorf("%s: %q: %+v (%v)", when, args, got, err)
			}
		}
	}
	check("beside a host")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check("without a host")
}
