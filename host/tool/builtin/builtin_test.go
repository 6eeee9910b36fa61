package builtin

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/pdftext"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == pdfWord {
		os.Exit(pdftext.Serve(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func openStore(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// bench runs tools as the host does: through enforcement and the runner.
type bench struct {
	t        *testing.T
	enforcer *tool.Enforcer
	offered  tool.Set
	machine  machine.Machine
	labels   []string
	agent    string
	sender   string
	group    bool // the conversation is no private one
	member   bool // the sender is no owner
}

func newBench(t *testing.T, web WebConfig) *bench {
	t.Helper()
	registry := tool.NewRegistry()
	if err := Register(registry, Config{Memory: openStore(t), Web: web, MaxNotes: func() int { return 3 }}); err != nil {
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
	host, err := machine.NewHost(machine.HostConfig{Workspace: t.TempDir(), Homes: t.TempDir(), Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &bench{t: t, enforcer: enforcer, offered: offered, machine: host, agent: "coder", sender: "web:owner"}
}

// call runs a tool; args is anything that encodes to its arguments.
func (b *bench) call(name string, args any) tool.Result {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	v, err := b.enforcer.Admit(b.t.Context(), tool.Subject{
		Message: message.Message{Channel: "web", Sender: message.Sender{ID: "owner"}},
		Offered: b.offered, Local: true, Approve: tool.ApproveNone,
	}, model.ToolCall{Name: name, Args: raw}, nil, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return new(tool.Runner).Run(b.t.Context(), v, tool.Call{
		Session: "s", Agent: b.agent, Sender: message.SenderKey(b.sender), Private: !b.group, Owner: !b.member, Turn: "t1", Labels: b.labels, Machine: b.machine,
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
	if err := Register(registry, Config{Memory: openStore(t)}); err != nil {
		t.Fatal(err)
	}
	coding, err := registry.Offered(tool.Coding, tool.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range registry.List() {
		if !coding.Has(s.Name) && s.Name != "think.hard" {
			t.Errorf("%s is in no profile but full", s.Name)
		}
		if s.Description == "" || !json.Valid(s.Schema) {
			t.Errorf("%s: description %q, schema %s", s.Name, s.Description, s.Schema)
		}
	}
	if got := len(registry.List()); got != 16 { // without message.attach, which needs a media store
		t.Errorf("%d tools, want 16", got)
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
