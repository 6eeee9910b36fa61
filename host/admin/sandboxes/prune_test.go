package sandboxes_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// TestPruneSnapshots: a conversation that is there loses its snapshots only if that is asked for, and never those that an undo still needs.
func TestPruneSnapshots(t *testing.T) {
	sandboxtest.Engine(t)
	dir := t.TempDir()
	path, data := filepath.Join(dir, "flynn.toml"), filepath.Join(dir, "s")
	text := fmt.Sprintf("[store]\ndir = %q\n[agent_configs.main]\nsystem_prompt = \"x\"\n[sandbox]\nenabled = true\nimage = %q\n", data, sandboxtest.Image)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sandboxes.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Driver.Close()

	store, err := sqlite.Open(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	const live, gone, undone = message.WorkspaceKey("web:live:main"), message.WorkspaceKey("web:gone:main"), message.WorkspaceKey("web:undone:main")
	for _, key := range []message.WorkspaceKey{live, undone} {
		if err := store.PutSession(t.Context(), turnlog.Session{Key: message.SessionKey(key)}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	host := snapshot.New(snapshot.Config{
		Dir: filepath.Join(data, "snapshots"), Workspaces: fleet.FoldersOf(data).Workspaces, Limit: func() int64 { return 1 << 20 }, Log: slog.New(slog.DiscardHandler),
	})
	for _, key := range []message.WorkspaceKey{live, gone, undone} {
		takeSnapshot(t, host, key)
	}
	plan, err := host.Plan(t.Context(), undone, 1)
	if err != nil {
		t.Fatal(err)
	}
	u, err := host.Undo(t.Context(), undone, snapshot.Request{Code: plan.Code, By: "web:owner"})
	if err != nil {
		t.Fatal(err)
	}
	prune := func(all bool, says string, want ...message.WorkspaceKey) {
		t.Helper()
		removed, err := admin.PruneSnapshots(t.Context(), slog.New(slog.DiscardHandler), all)
		slices.Sort(removed)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || !slices.Equal(removed, want) {
			t.Errorf("all %t: removed %q, %v", all, removed, err)
		}
	}
	prune(true, "a host is running")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	prune(false, "", gone)
	prune(false, "")
	prune(true, "the snapshots of web:undone:main stay", live)
	if plan, err := host.Plan(t.Context(), undone, 1); err != nil || plan.Code == "" {
		t.Errorf("an undo of the undo: %+v, %v", plan, err)
	}

	again := snapshot.New(host.Config) // the next start
	all, err := again.Recover()
	if err != nil || len(all) != 1 || all[0].ID != u.ID {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := again.Recorded(all[0]); err != nil {
		t.Fatal(err)
	}
	prune(true, "", undone)
	prune(true, "")
	if plan, err := host.Plan(t.Context(), undone, 1); err != nil || plan.Code != "" {
		t.Errorf("without snapshots: %+v, %v", plan, err)
	}
	takeSnapshot(t, snapshot.New(host.Config), live)
	prune(false, "")
	prune(true, "", live)
}

// takeSnapshot is a turn that writes a file.
func takeSnapshot(t *testing.T, s *snapshot.Store, key message.WorkspaceKey) {
	t.Helper()
	dir := workspace.Path(s.Workspaces, key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Take(t.Context(), key, "t1")
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Settle(t.Context(), key, "t1")
}
