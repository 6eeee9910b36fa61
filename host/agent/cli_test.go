package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/cli"
)

// cliProgram stands for the tool of an agent of kind cli.
type cliProgram struct {
	ran    []cli.Args
	during func(cli.Args) (cli.Record, error)
}

func (*cliProgram) Spec() tool.Spec {
	return tool.Spec{Name: cli.ToolName, Description: "runs", Effect: tool.Write, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (p *cliProgram) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var args cli.Args
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return tool.Result{}, err
	}
	p.ran = append(p.ran, args)
	c.Say("thinking")
	record := cli.Record{Session: args.Session, Usage: model.Usage{Input: 7, Output: 3}}
	if p.during != nil {
		var err error
		if record, err = p.during(args); err != nil {
			return tool.Result{}, err
		}
	}
	decision, err := json.Marshal(record)
	if record.Unknown {
		return tool.Result{Text: "no such session", IsError: true, Record: decision}, err
	}
	return tool.Result{Text: fmt.Sprintf("run %d: %s", len(p.ran), args.Prompt), Record: decision}, err
}

// cliHouse is a house whose agents are of kind cli.
func cliHouse(t *testing.T, s *sqlite.Store, p *cliProgram) *house {
	h := newHouse(t, s, nil)
	registry := tool.NewRegistry()
	if err := registry.Register(p); err != nil {
		t.Fatal(err)
	}
	for _, a := range h.gen.Agents {
		a.Kind, a.Registry, a.Offered, a.Sandboxed = KindCLI, registry, tool.NewSet(cli.ToolName), true
		a.CLI = &CLI{Name: "prog", Workspace: "/workspace", Gives: true, Resumes: true}
		a.System = "Be brief."
	}
	return h
}

func TestCLI(t *testing.T) {
	p := &cliProgram{}
	s := openStore(t)
	h := cliHouse(t, s, p)
	h.accept("ann", "hello")
	h.work(t.Context())
	h.accept("ann", "more")
	h.work(t.Context())
	h.want("run 1: Be brief.\n\nhello", "run 2: more")
	first, second := p.ran[0], p.ran[1]
	if first.Resume || len(first.Session) != 36 || !second.Resume || second.Session != first.Session {
		t.Errorf("runs: %+v", p.ran)
	}
	said := 0
	for _, e := range h.events {
		if e.Kind == message.TextDelta && e.Text == "thinking" {
			said++
		}
	}
	if said != 2 {
		t.Errorf("%d pieces were shown", said)
	}
	h = cliHouse(t, s, p) // another process
	h.accept("ann", "and more")
	h.work(t.Context())
	if last := p.ran[2]; !last.Resume || last.Session != first.Session {
		t.Errorf("after a restart: %+v", last)
	}
	h.accept("bob", "hi")
	h.work(t.Context())
	if last := p.ran[3]; last.Resume || last.Session == first.Session {
		t.Errorf("another sender's: %+v", last)
	}
}

// A host that dies while the program runs does not run it again, says so, and goes on with its session.
// TestASilentProgramGivesASign has a program that prints nothing until somebody was told that it is at work.
func TestASilentProgramGivesASign(t *testing.T) {
	told := make(chan struct{})
	p := &cliProgram{during: func(cli.Args) (cli.Record, error) { <-told; return cli.Record{}, nil }}
	h := cliHouse(t, openStore(t), p)
	h.runner.cfg.Quiet = time.Millisecond
	replied := h.on.replied
	h.on.replied = func(turn string, r message.Reply) {
		if replied(turn, r); !transcript.IsAnswer(turn, r) {
			close(told) // a second time is a defect, and panics
		}
	}
	h.accept("ann", "hello")
	h.work(t.Context())
	texts := h.texts()
	if len(texts) != 2 || !strings.HasPrefix(texts[0], "prog is still at work; it has printed nothing for ") {
		t.Errorf("said %q", texts)
	}
	shown := false
	for _, e := range h.events {
		shown = shown || e.Kind == message.ToolProgress && e.Waiting && strings.Contains(e.Text, "still at work")
	}
	if !shown {
		t.Error("the watcher saw nothing")
	}
}

func TestCLIInterrupted(t *testing.T) {
	s, p := openStore(t), &cliProgram{}
	ctx, die := context.WithCancel(t.Context())
	p.during = func(cli.Args) (cli.Record, error) { die(); return cli.Record{}, ctx.Err() }
	h := cliHouse(t, s, p)
	h.accept("ann", "do it")
	h.work(ctx)
	h.want()
	p.during = nil
	h = cliHouse(t, s, p)
	h.work(t.Context())
	if got := h.texts(); len(got) != 1 || !strings.Contains(got[0], "may or may not have done") || len(p.ran) != 1 {
		t.Fatalf("%d runs, replies %q", len(p.ran), got)
	}
	h.accept("ann", "look")
	h.work(t.Context())
	if last := p.ran[1]; !last.Resume || last.Session != p.ran[0].Session {
		t.Errorf("it goes on with %+v after %+v", last, p.ran[0])
	}
}

func TestCLIWithAnUnknownSession(t *testing.T) {
	p := &cliProgram{}
	h := cliHouse(t, openStore(t), p)
	h.accept("ann", "hello")
	h.work(t.Context())
	p.during = func(a cli.Args) (cli.Record, error) { return cli.Record{Unknown: a.Resume, Session: a.Session}, nil }
	h.accept("ann", "more")
	h.work(t.Context())
	if got := h.texts(); len(p.ran) != 3 || !strings.Contains(got[1], "prog no longer knows our earlier conversation") || !strings.Contains(got[1], "run 3: Be brief.") {
		t.Fatalf("runs %+v, replies %q", p.ran, got)
	}
	p.during = nil
	h.accept("ann", "again")
	h.work(t.Context())
	if last := p.ran[3]; !last.Resume || last.Session != p.ran[2].Session || last.Session == p.ran[0].Session {
		t.Errorf("it goes on with %+v", last)
	}
}

// The run is a call like any other: a person who may deny calls denies it.
func TestCLIRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*house)
		want   string
	}{
		{"by a policy", func(h *house) {
			h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
				return policy.Restrictions{Deny: f.Tool == cli.ToolName, Reasons: []string{"not today"}}
			}
		}, "not today"},
		{"by the budget", func(h *house) { h.gen.Limits.ToolCalls = 0 }, "used its 0 tool calls"},
		{"not offered", func(h *house) { h.gen.Agents["helper"].Offered = tool.Set{} }, "is not offered"},
		{"on the host, over a channel", func(h *house) { h.gen.Agents["helper"].Sandboxed = false }, "only its owner may use it"},
		{"on the host, by a member", func(h *house) {
			h.gen.Agents["helper"].Sandboxed = false
			h.gen.Roles = route.NewRoles(config.Access{}, route.AllProved)
		}, "only its owner may use it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &cliProgram{}
			h := cliHouse(t, openStore(t), p)
			c.change(h)
			h.accept("ann", "hello")
			h.work(t.Context())
			if got := h.texts(); len(got) != 1 || !strings.Contains(got[0], c.want) || len(p.ran) != 0 {
				t.Errorf("%d runs, replies %q", len(p.ran), got)
			}
		})
	}
}

func TestCLIPrompt(t *testing.T) {
	voice := cliVoice{identity: &identity{agent: &Agent{CLI: &CLI{Workspace: "/workspace"}}}, recorder: &recorder{state: transcript.State{User: transcript.UserStep{Said: []transcript.Said{{
		Text: "look", Files: []message.File{{Name: "a.png", Type: "image/png", Size: 3, Path: "files/a.png"}, {Name: "b", Why: "too large"}},
	}}}}}}
	want := "look\n[attachment \"a.png\", image/png, 3 bytes: /workspace/files/a.png]\n[attachment \"b\" was not taken: too large]"
	if got := voice.prompt(true); got != want {
		t.Errorf("got %q", got)
	}
	if voice.state.User.Said[0].Files[0].Path != "files/a.png" {
		t.Error("the record was changed")
	}
}
