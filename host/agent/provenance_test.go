package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// calling is a model that makes the calls of the last message, one a line as "NAME JSON", one after the other.
func calling(_ context.Context, req model.Request) (model.Response, error) {
	done := 0
	for i, m := range slices.Backward(req.Messages) {
		if m.Role == model.User && len(m.Results) == 0 {
			lines := strings.Split(m.Text, "\n")
			if done >= len(lines) || !strings.Contains(lines[done], "{") {
				return say("done"), nil
			}
			name, args, _ := strings.Cut(lines[done], " ")
			return callTool(fmt.Sprintf("c%d-%d", i, done), name, args), nil
		}
		done += len(m.Results)
	}
	return model.Response{}, errors.New("nobody said anything")
}

// stub is a tool that answers what it is told to.
type stub struct {
	spec   tool.Spec
	result tool.Result
	err    error
}

func (s stub) Spec() tool.Spec {
	s.spec.Description, s.spec.Schema = "stub", json.RawMessage(`{"type":"object"}`)
	return s.spec
}

func (s stub) Run(context.Context, tool.Call) (tool.Result, error) { return s.result, s.err }

// namedMachine is a machine under another name.
type namedMachine struct {
	machine.Machine
	name string
}

func (p namedMachine) Name() string { return p.name }

// namedMachines are the host's workspace under several names: as the host, and as sandboxes.
type namedMachines struct {
	noMachines
	host machine.Machine
}

func (p namedMachines) Host(message.WorkspaceKey) (machine.Machine, error) { return p.host, nil }

func (p namedMachines) Sandbox(_ context.Context, _ message.WorkspaceKey, name string) (machine.Machine, error) {
	if name == "" {
		name = "sandbox"
	}
	return namedMachine{p.host, name}, nil
}

// room is a house with Flynn's own tools, some foreign ones, and a probe that tells the labels at its call.
type room struct {
	*house
	store  *sqlite.Store
	host   machine.Machine
	labels []string // at the last call of the probe
	routed []string // at the last routing
	deny   string   // tool that is denied
}

func newRoom(t *testing.T, s *sqlite.Store, host machine.Machine) *room {
	t.Helper()
	r := &room{house: newHouse(t, s, nil), store: s, host: host}
	reg := tool.NewRegistry()
	if err := builtin.Register(reg, builtin.Config{Memory: s, Results: s}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []stub{
		{spec: tool.Spec{Name: "probe.look", Effect: tool.Read}},
		{spec: tool.Spec{Name: "page.read", Effect: tool.Network}, result: tool.Result{Labels: []string{"web:evil.example"}}},
		{spec: tool.Spec{Name: "page.gone", Effect: tool.Network}, result: tool.Result{IsError: true, Labels: []string{"web:gone.example"}}},
		{spec: tool.Spec{Name: "page.odd", Effect: tool.Network}, result: tool.Result{Labels: []string{"a\nb", "web:" + strings.Repeat("x", 999)}}},
		{spec: tool.Spec{Name: "plug.say", Effect: tool.Read, Provider: "plug", Profiles: []string{tool.Full}}, result: tool.Result{Text: "hi"}},
		{spec: tool.Spec{Name: "plug.fail", Effect: tool.Read, Provider: "plug", Profiles: []string{tool.Full}}, result: tool.Result{Text: "no", IsError: true}},
		{spec: tool.Spec{Name: "plug.break", Effect: tool.Read, Provider: "plug", Profiles: []string{tool.Full}}, err: errors.New("it broke")},
		{spec: tool.Spec{Name: "plug.lie", Effect: tool.Read, Provider: "plug", Profiles: []string{tool.Full}}, result: tool.Result{Labels: []string{"sender:owner"}}},
	} {
		if err := reg.Replace(s); err != nil {
			if err = reg.Register(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	offered, err := reg.Offered(tool.Full, tool.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	r.gen.Registry, r.gen.Models = reg, script(calling)
	r.gen.Limits = Limits{Steps: 20, ToolCalls: 20, Tokens: 1e6, Time: time.Minute}
	r.gen.Roles = route.NewRoles(config.Access{Owners: []string{"irc:ann"}, Members: []string{"irc:bob"}}, route.AllProved)
	r.gen.Offline, r.gen.Sandboxes = map[string]bool{"quiet": true}, []string{"", "quiet"}
	r.gen.Agents["helper"].Offered, r.gen.Agents["helper"].Approve = offered, tool.ApproveNone
	r.runner.cfg.Machines = namedMachines{host: host}
	r.chain.tool = r.judge
	r.chain.route = func(f policy.RouteFacts) policy.RouteAnswer {
		r.routed = slices.Clone(f.Labels)
		return policy.RouteAnswer{}
	}
	return r
}

func (r *room) judge(f policy.ToolFacts) policy.Restrictions {
	if f.Tool == "probe.look" {
		r.labels = slices.Clone(f.Labels)
	}
	return policy.Restrictions{Deny: f.Tool == r.deny}
}

// said is a message and what the house is like when it comes.
type said struct {
	from    string // "terminal:me" when empty
	scope   string // conversation; the sender when empty
	text    string
	types   []string
	deny    string
	sandbox string // "host" when empty
}

func (r *room) say(s said) {
	r.t.Helper()
	if s.from == "" {
		s.from = "terminal:me"
	}
	channel, id, _ := strings.Cut(s.from, ":")
	if s.scope == "" {
		s.scope = id
	}
	m := message.Message{
		Channel: channel, EventID: store.NewID(time.Now()), Text: s.text, Sender: message.Sender{ID: id},
		Conversation: message.Conversation{ID: s.scope, Kind: message.DM},
	}
	for _, mt := range s.types {
		m.Attachments = append(m.Attachments, message.Attachment{Handle: "h", Type: mt})
	}
	if _, _, err := r.store.AppendInbox(r.t.Context(), m, mailbox.InboxNew, ""); err != nil {
		r.t.Fatal(err)
	}
	a := r.gen.Agents["helper"]
	a.Sandboxed, a.Sandbox, r.gen.LocalFrontends = s.sandbox != "", strings.TrimPrefix(s.sandbox, "sandbox"), true
	r.deny = s.deny
	r.work(r.t.Context())
	if n := len(r.events); n == 0 || r.events[n-1].Kind != message.TurnDone {
		r.t.Fatalf("%q was not answered: %+v", s.text, r.events)
	}
}

// probe returns the labels at a call of a new turn, and checks that routing saw the same ones.
func (r *room) probe(s said) []string {
	r.t.Helper()
	s.text, s.types = "probe.look {}", nil
	r.labels, r.routed = []string{"not asked"}, nil
	r.say(s)
	if !slices.Equal(r.routed, r.labels) {
		r.t.Errorf("routing was told %q, the call %q", r.routed, r.labels)
	}
	return r.labels
}

func workspace(t *testing.T) machine.Machine {
	t.Helper()
	host, err := machine.NewHost(machine.HostConfig{Workspace: t.TempDir(), Homes: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	if err := host.WriteFile(t.Context(), "notes.txt", []byte("hello\n"), 0); err != nil {
		t.Fatal(err)
	}
	return host
}

// TestProvenance is the table of what leaves which labels, by every way on which they have to come along.
func TestProvenance(t *testing.T) {
	long := "file:" + strings.Repeat("d/", 125) + "*"
	sources := []struct {
		name string
		said said
		want []string
	}{
		{"nothing", said{text: "hello"}, nil},
		{"a page", said{text: "page.read {}"}, []string{"web:evil.example"}},
		{"a page that could not be read", said{text: "page.gone {}"}, []string{"web:gone.example"}},
		{"labels that are made to confuse", said{text: "page.odd {}"}, []string{"other:a%0Ab", "web:" + strings.Repeat("x", tool.MaxLabel-5) + "*"}},
		{"a file", said{text: `file.read {"path":"./x/../notes.txt"}`}, []string{"file:notes.txt"}},
		{"a folder", said{text: `file.list {}`}, []string{"file:."}},
		{"a file that is not there", said{text: `file.read {"path":"none.txt"}`}, nil},
		{"a path of no end", said{text: `file.write {"path":"` + strings.Repeat("d/", 200) + `x","content":"x"}`}, []string{long}},
		{"an edit that failed", said{text: `file.edit {"path":"notes.txt","old":"nowhere","new":"x"}`}, []string{"file:notes.txt"}},
		{"a command on the host", said{text: `shell.exec {"command":"true"}`}, []string{"network:host", "shell:host"}},
		{"a command that failed", said{text: `shell.exec {"command":"echo bad; exit 3"}`}, []string{"network:host", "shell:host"}},
		{"a command in a sandbox with a network", said{text: `shell.exec {"command":"true"}`, sandbox: "sandbox"}, []string{"network:sandbox", "shell:sandbox"}},
		{"a command in a sandbox without", said{text: `shell.exec {"command":"true"}`, sandbox: "quiet"}, []string{"shell:quiet"}},
		{"starting a process", said{text: `process.start {"command":"true"}`}, nil},
		{"a foreign tool", said{text: "plug.say {}"}, []string{"tool:plug.say"}},
		{"a foreign tool that failed", said{text: "plug.fail {}"}, []string{"tool:plug.fail"}},
		{"a foreign tool that broke", said{text: "plug.break {}"}, []string{"tool:plug.break"}},
		{"a foreign tool that labels itself", said{text: "plug.lie {}"}, []string{"sender:owner", "tool:plug.lie"}},
		{"a denied call", said{text: "page.read {}", deny: "page.read"}, nil},
		{"a call that fits no schema", said{text: `file.read {"pfad":1}`}, nil},
		{"a member", said{from: "irc:bob", text: "hello"}, []string{"sender:member"}},
		{"a guest", said{from: "irc:eve", text: "hello"}, []string{"sender:guest"}},
		{"an owner", said{from: "irc:ann", text: "hello"}, nil},
		{"attachments", said{text: "look", types: []string{"image/png", ""}}, []string{"attachment:image/png", "attachment:unknown"}},
		{"several together", said{from: "irc:eve", text: "page.read {}\nplug.say {}"}, []string{"sender:guest", "tool:plug.say", "web:evil.example"}},
	}
	ways := []struct {
		name  string
		brief bool // only with some of the sources: this way cannot tell them apart
		run   func(t *testing.T, r *room, s said) []string
	}{
		{"later in the turn", false, func(t *testing.T, r *room, s said) []string {
			if !strings.Contains(s.text, "{") {
				s.text = "probe.look {}"
			} else {
				s.text += "\nprobe.look {}"
			}
			r.say(s)
			return r.labels
		}},
		{"the next turn", false, func(t *testing.T, r *room, s said) []string {
			r.say(s)
			return r.probe(s)
		}},
		{"after a kill", true, func(t *testing.T, r *room, s said) []string {
			r.say(s)
			return newRoom(t, r.store, r.host).probe(s)
		}},
		{"by way of a note", true, func(t *testing.T, r *room, s said) []string {
			r.say(s)
			s.deny, s.types = "", nil
			s.text = `memory.write {"key":"k","text":"something to know","scope":"shared"}`
			r.say(s)
			other := newRoom(t, r.store, r.host)
			other.say(said{scope: "elsewhere", text: `memory.read {"key":"k"}`})
			return other.probe(said{scope: "elsewhere"})
		}},
		{"by way of a search among notes", true, func(t *testing.T, r *room, s said) []string {
			r.say(s)
			s.deny, s.types = "", nil
			s.text = `memory.write {"key":"k","text":"something to know","scope":"shared"}`
			r.say(s)
			r.say(said{scope: "elsewhere", text: `memory.search {"query":"know"}`})
			return r.probe(said{scope: "elsewhere"})
		}},
	}
	for _, way := range ways {
		for _, c := range sources {
			if way.brief && len(c.want) < 2 && c.name != "a page" && c.name != "a denied call" {
				continue
			}
			t.Run(way.name+"/"+c.name, func(t *testing.T) {
				r := newRoom(t, openStore(t), workspace(t))
				if got := way.run(t, r, c.said); !slices.Equal(got, c.want) {
					t.Errorf("labels are %q, want %q", got, c.want)
				}
			})
		}
	}
}

// TestProvenanceStaysWithItsSession: another conversation of the same people and agent has not read what this one has.
func TestProvenanceStaysWithItsSession(t *testing.T) {
	r := newRoom(t, openStore(t), workspace(t))
	r.say(said{text: "page.read {}"})
	if got := r.probe(said{scope: "thread-of-me"}); len(got) != 0 {
		t.Errorf("labels are %q", got)
	}
}

// TestProvenanceOutlivesTheText: the page has long left what the model is shown, and even what the host keeps at hand.
func TestProvenanceOutlivesTheText(t *testing.T) {
	r := newRoom(t, openStore(t), workspace(t))
	r.gen.Agents["helper"].Window = 1 // everything but the last message is left out
	r.say(said{text: "page.read {}"})
	for range keepTurns + 2 {
		r.say(said{text: "hello"})
	}
	for name, at := range map[string]*room{"the same process": r, "another process": newRoom(t, r.store, r.host)} {
		if got := at.probe(said{}); !slices.Equal(got, []string{"web:evil.example"}) {
			t.Errorf("%s: labels are %q", name, got)
		}
	}
}

// TestProvenanceOfBackgroundOutput: what a process prints later counts when it is read.
func TestProvenanceOfBackgroundOutput(t *testing.T) {
	r := newRoom(t, openStore(t), workspace(t))
	r.say(said{text: `process.start {"command":"echo hi"}`})
	list, err := r.host.Processes(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("processes %+v (%v)", list, err)
	}
	r.say(said{text: fmt.Sprintf(`process.output {"id":%q}`, list[0].ID)})
	if got := r.probe(said{}); !slices.Equal(got, []string{"network:host", "shell:host"}) {
		t.Errorf("labels are %q", got)
	}
}
