package host

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAPartThatFailsEndsTheHost has an outbox that cannot be read. A host that went on without it would look well and
// deliver nothing.
func TestAPartThatFailsEndsTheHost(t *testing.T) {
	h := newHost(t, "")
	dir := h.current.Load().Config.Store.Dir
	beside, err := sql.Open("sqlite", filepath.Join(dir, "flynn.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	if _, err := beside.ExecContext(t.Context(), "INSERT INTO outbox (key, turn, reply, state) VALUES ('k', 't', 'garbage', 'pending')"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.Run(ctx); ctx.Err() != nil || err == nil || !strings.Contains(err.Error(), "outbox") {
		t.Fatalf("run: %v, %v", err, ctx.Err())
	}
}

// newHost opens a host with one agent and so much more of a configuration. Unless it runs it has to be closed.
func newHost(t *testing.T, more string) *Host {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := "[store]\ndir = \"" + dir + "/s\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\ntool_profile = \"minimal\"\n"
	if err := os.WriteFile(path, []byte(text+more), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
