package builtin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store of notes that forgets at the end of the test.
type memory struct{ notes []store.Note }

func (m *memory) WriteNote(_ context.Context, n store.Note) error {
	m.notes = slices.DeleteFunc(m.notes, func(o store.Note) bool { return o.Agent == n.Agent && o.Key == n.Key })
	m.notes = append(m.notes, n)
	return nil
}

func (m *memory) ReadNote(_ context.Context, agent, key string) (store.Note, error) {
	for _, n := range m.notes {
		if n.Agent == agent && n.Key == key {
			return n, nil
		}
	}
	return store.Note{}, store.ErrNotFound
}

func (m *memory) SearchNotes(_ context.Context, agent, query string, limit int) ([]store.Note, error) {
	var found []store.Note
	for _, n := range m.notes {
		if n.Agent == agent && strings.Contains(n.Text, query) && len(found) < limit {
			found = append(found, n)
		}
	}
	return found, nil
}

// bench runs tools as the host does: through enforcement and the runner.
type bench struct {
	t        *testing.T
	enforcer *tool.Enforcer
	offered  tool.Set
	machine  machine.Machine
	labels   []string
	agent    string
}

func newBench(t *testing.T, web WebConfig) *bench {
	t.Helper()
	registry := tool.NewRegistry()
	if err := Register(registry, Config{Memory: &memory{}, Web: web}); err != nil {
		t.Fatal(err)
	}
	enforcer, err := tool.NewEnforcer(tool.EnforcerConfig{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	offered, err := registry.Offered(tool.Full, tool.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	host, err := machine.NewHost(machine.HostConfig{Workspace: t.TempDir(), Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &bench{t: t, enforcer: enforcer, offered: offered, machine: host, agent: "coder"}
}

// call runs a tool; args is anything that encodes to its arguments.
func (b *bench) call(name string, args any) tool.Result {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	v := b.enforcer.Enforce(b.t.Context(), tool.Subject{
		Message: message.Message{Channel: "web", Sender: message.Sender{ID: "owner"}},
		Offered: b.offered, LocalDoor: true, Approve: tool.ApproveNone,
	}, model.ToolCall{Name: name, Args: raw})
	return new(tool.Runner).Run(b.t.Context(), v, tool.Call{
		Session: "s", Agent: b.agent, Sender: "web:owner", Labels: b.labels, Machine: b.machine,
	})
}

type args map[string]any

// want checks a result's text by a part of it.
func (b *bench) want(r tool.Result, isError bool, parts ...string) {
	b.t.Helper()
	if r.IsError != isError {
		b.t.Errorf("error %v, want %v: %q", r.IsError, isError, r.Text)
	}
	for _, p := range parts {
		if !strings.Contains(r.Text, p) {
			b.t.Errorf("%q lacks %q", r.Text, p)
		}
	}
}

func TestEveryToolIsInAProfileAndDescribed(t *testing.T) {
	registry := tool.NewRegistry()
	if err := Register(registry, Config{Memory: &memory{}}); err != nil {
		t.Fatal(err)
	}
	coding, err := registry.Offered(tool.Coding, tool.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range registry.List() {
		if !coding.Has(s.Name) {
			t.Errorf("%s is in no profile but full", s.Name)
		}
		if s.Description == "" || !json.Valid(s.Schema) {
			t.Errorf("%s: description %q, schema %s", s.Name, s.Description, s.Schema)
		}
	}
	if got := len(registry.List()); got != 13 { // without message.attach, which needs a media store
		t.Errorf("%d tools, want 13", got)
	}
	minimal, err := registry.Offered(tool.Minimal, tool.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range registry.List() {
		if minimal.Has(s.Name) && s.Effect != tool.Read {
			t.Errorf("profile minimal offers %s, whose effect is %s", s.Name, s.Effect)
		}
	}
}

func TestMemoryTools(t *testing.T) {
	b := newBench(t, WebConfig{})
	b.labels = []string{"web:example.com"}
	b.want(b.call("memory.read", args{"key": "k"}), true, "nothing is remembered")
	b.want(b.call("memory.write", args{"key": "k", "text": "the cat likes tuna"}), false, "k")
	b.want(b.call("memory.write", args{"key": "long", "text": strings.Repeat("tuna ", 1000)}), false)
	b.labels = nil
	r := b.call("memory.read", args{"key": "k"})
	b.want(r, false, "the cat likes tuna")
	if !slices.Equal(r.Labels, []string{"web:example.com"}) {
		t.Errorf("a note lost the labels of its origin: %q", r.Labels)
	}
	r = b.call("memory.search", args{"query": "tuna"})
	b.want(r, false, "k: the cat", "long: tuna", "...")
	if len(r.Text) > 2000 || len(r.Labels) == 0 {
		t.Errorf("search gives %d bytes with labels %q", len(r.Text), r.Labels)
	}
	b.want(b.call("memory.search", args{"query": "dog"}), false, "no note")
	b.agent = "other"
	b.want(b.call("memory.read", args{"key": "k"}), true, "nothing is remembered")
	b.want(b.call("memory.write", args{"key": "", "text": "x"}), true, "key")
}
