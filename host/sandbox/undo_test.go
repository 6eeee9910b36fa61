package sandbox_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
)

// An undo of files reaches the sandboxes, whether they have the host's folder or a volume on an engine elsewhere, and no sandbox sees what is
// kept for it.
func TestUndoInContainers(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(t *testing.T) (*sandbox.Manager, sandbox.Config)
	}{
		{"here", func(t *testing.T) (*sandbox.Manager, sandbox.Config) { return sandboxtest.Engine(t).Manager(t) }},
		{"elsewhere", func(t *testing.T) (*sandbox.Manager, sandbox.Config) {
			e, config := sandboxtest.OverTLS(t)
			return e.Manager(t, func(c *sandbox.Config) { c.Driver = remote(t, config) })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, config := c.open(t)
			kept := snapshot.New(snapshot.Config{
				Dir: filepath.Join(t.TempDir(), "kept-elsewhere"), Workspaces: config.WorkspaceRoot, Limit: func() int64 { return 1 << 30 }, Log: slog.New(slog.DiscardHandler),
			})
			const session message.WorkspaceKey = "web:undo:main"
			fetch := func() {
				t.Helper()
				if err := m.Fetch(t.Context(), session); err != nil {
					t.Fatal(err)
				}
			}
			const look = "cat a; ls; stat -c %a run; find / -xdev -name '*kept-elsewhere*' 2>/dev/null; true"
			s := get(t, m, session, config.Spec)
			shell(t, s, "echo one > a; mkdir d; echo deep > d/f; echo '#!' > run; chmod 750 run")
			was := shell(t, s, look)
			fetch()
			kept.Take(t.Context(), session, "t1")
			shell(t, s, "echo two > a; rm -r d; echo new > n; chmod 600 run")
			became := shell(t, s, look)
			fetch()
			kept.Settle(t.Context(), session, "t1")
			for _, want := range []string{was, became, was} {
				fetch()
				p, err := kept.Plan(t.Context(), session, 1)
				if err != nil || len(p.Changed) > 0 {
					t.Fatalf("%+v, %v", p, err)
				}
				if err := m.Destroy(t.Context(), session); err != nil {
					t.Fatal(err)
				}
				u, err := kept.Undo(t.Context(), session, snapshot.Request{Code: p.Code})
				if err != nil || len(u.Plan.Left) > 0 {
					t.Fatalf("%+v, %v", u, err)
				}
				if err := kept.Recorded(u); err != nil {
					t.Fatal(err)
				}
				if got := shell(t, get(t, m, session, config.Spec), look); got != want {
					t.Errorf("after the undo:\n%s\nwant:\n%s", got, want)
				}
			}
		})
	}
}
