package fleet

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// ofMany is a host among others that owns every conversation.
type ofMany struct{ Cluster }

func (ofMany) Shared() bool { return true }

// noSessions is a store that has nothing but records of sandboxes and workspaces.
type noSessions struct {
	noStore
	store.SandboxRecords
}

// A host tells once, each time that a conversation comes to it, that the files have stayed on the host before.
func TestFilesThatStayedOnAnotherHost(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.URL(server.Database(t))
	hosts := map[string]*Fleet{}
	for _, name := range []string{"a", "b"} {
		s, err := database.At(t.TempDir(), "TEST", redact.Secret(url), name).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		f, err := New(Config{Dir: t.TempDir(), Store: noSessions{SandboxRecords: s}, Cluster: ofMany{}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		f.Configure(&config.Config{})
		hosts[name] = f
	}
	const workspace = message.WorkspaceKey("irc/dm:ann:'é:helper")
	for i, c := range []struct {
		host  string
		epoch int64
		want  string
	}{
		{"a", 1, ""}, {"a", 1, ""}, {"b", 2, `"a"`}, {"b", 2, ""}, {"b", 3, ""}, {"a", 4, `"b"`}, {"a", 4, ""},
	} {
		line := hosts[c.host].moved(t.Context(), workspace, c.epoch)
		if (line == "") != (c.want == "") || !strings.Contains(line, c.want) {
			t.Errorf("call %d, on host %s in epoch %d: %q, want %q", i, c.host, c.epoch, line, c.want)
		}
	}
	if line := hosts["b"].Moved(t.Context(), workspace); line != "" {
		t.Errorf("a call outside of a conversation: %q", line)
	}
}

// A record that this program cannot read is left to a host of another version.
func TestRecordsOfAnotherVersion(t *testing.T) {
	rows := rowsOf{{Key: "k", Workspace: "w", Conversation: "c", Record: []byte(`{"version":99}`), Free: true}}
	all, err := Registry(rows, ofMany{}).List(t.Context(), "")
	if err != nil || len(all) != 1 || !all[0].Foreign || all[0].Free || all[0].Record.Key != "k" {
		t.Errorf("%+v (%v)", all, err)
	}
	if r := Registry(rows, nil); r != container.Registry(nil) {
		t.Error("a host that is alone has a registry")
	}
}

// rowsOf is a store with these rows.
type rowsOf []store.Sandbox

func (r rowsOf) ListSandboxes(context.Context, message.WorkspaceKey) ([]store.Sandbox, error) {
	return r, nil
}
func (rowsOf) AddSandbox(context.Context, store.Sandbox) error              { return nil }
func (rowsOf) TakeSandbox(context.Context, string, int64) error             { return nil }
func (rowsOf) DropSandbox(context.Context, string, int64) error             { return nil }
func (rowsOf) WorkIn(context.Context, message.WorkspaceKey) (string, error) { return "", nil }

// A container engine on another machine is shared, that of this machine is not.
func TestShareable(t *testing.T) {
	var all []Engine
	for _, address := range []string{"ssh://engine", "tcp://127.0.0.1:2375", "unix:///nowhere.sock"} {
		d, err := docker.New(docker.Config{Engine: address})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	for i, e := range shareable(all) {
		if _, listens := e.(driver.Dialed); listens != (i < 2) || e.Address() != all[i].Address() {
			t.Errorf("%s: listens %v", e.Address(), listens)
		}
	}
}
