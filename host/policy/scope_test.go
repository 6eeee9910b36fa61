package policy

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func TestPoliciesAreAskedWhereTheyApply(t *testing.T) {
	deny := write(t, version(7, 1))
	drop := write(t, w.Policy(1).Hook("flynn_route", "", w.I64(int64(abi.RouteDrop))))
	for _, c := range []struct {
		name             string
		agents, channels []string
		agent, channel   string
		asked            bool
	}{
		{"everywhere", nil, nil, "main", "irc", true},
		{"the agent", []string{"main"}, nil, "main", "irc", true},
		{"another agent", []string{"main"}, nil, "coder", "irc", false},
		{"one of the globs", []string{"x", "co*"}, nil, "coder", "irc", true},
		{"the channel", nil, []string{"irc"}, "main", "irc", true},
		{"another channel", nil, []string{"irc"}, "main", "web", false},
		{"a channel by its beginning only", nil, []string{"irc"}, "main", "irc-work", false},
		{"both", []string{"main"}, []string{"irc*"}, "main", "irc-work", true},
		{"only one of both", []string{"main"}, []string{"web"}, "main", "irc", false},
		{"no candidate", []string{"main"}, nil, "", "irc", false},
		{"no candidate, and a star", []string{"*"}, nil, "", "irc", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			scoped := func(name, path, kind string) Source {
				return Source{Name: name, Path: path, Kinds: []string{kind}, Agents: c.agents, Channels: c.channels}
			}
			s := engine(t, scoped("tool", deny, KindTool), scoped("route", drop, KindRoute)).Pin()
			defer s.Release()
			f := toolFacts()
			f.Agent, f.Message.Channel = c.agent, c.channel
			restrictions, records := s.Tool(t.Context(), f)
			if restrictions.Deny != c.asked || (len(records) == 1) != c.asked || (len(restrictions.Reasons) == 1) != c.asked {
				t.Errorf("the tool policy demands %+v with %d records", restrictions, len(records))
			}
			r := routeFacts()
			r.Candidate, r.Message.Channel = c.agent, c.channel
			answer, records := s.Route(t.Context(), r)
			if answer.Decided != c.asked || (len(records) == 1) != c.asked {
				t.Errorf("the route policy answers %+v with %d records", answer, len(records))
			}
		})
	}
}

// TestScopeOfAFailingPolicy: one that cannot be loaded fails closed where it applies, and nowhere else.
func TestScopeOfAFailingPolicy(t *testing.T) {
	s := engine(t, Source{Name: "p", Path: "/nonexistent.wasm", Kinds: []string{KindTool}, Channels: []string{"irc"}}).Pin()
	defer s.Release()
	f := toolFacts()
	for channel, denied := range map[string]bool{"irc": true, "web": false} {
		f.Message.Channel = channel
		if r, _ := s.Tool(t.Context(), f); r.Deny != denied {
			t.Errorf("%s: %+v", channel, r)
		}
	}
}

func TestBadScopesAreRefused(t *testing.T) {
	for _, s := range []Source{{Agents: []string{"[a"}}, {Channels: []string{"!irc"}}} {
		s.Name, s.Path, s.Kinds = "p", "p.wasm", []string{KindTool}
		if e, err := New(t.Context(), Config{Sources: []Source{s}}); err == nil {
			e.Close()
			t.Errorf("%+v was taken", s)
		}
	}
}

// TestANewScopeNeedsNoCompiler: the module stays the one that it was, only the chain is another.
func TestANewScopeNeedsNoCompiler(t *testing.T) {
	source := tool("p", write(t, version(1, 1)))
	e := engine(t, source)
	before := e.Pin()
	defer before.Release()
	source.Channels = []string{"web"}
	if err := e.Configure(t.Context(), []Source{source}); err != nil {
		t.Fatal(err)
	}
	after := e.Pin()
	defer after.Release()
	if before.links[0].module != after.links[0].module || before.Digest() == after.Digest() {
		t.Error("the module was loaded anew, or the chain has the old digest")
	}
	f := toolFacts()
	f.Message.Channel = "irc"
	was, _ := before.Tool(t.Context(), f)
	is, _ := after.Tool(t.Context(), f)
	if !was.Deny || is.Deny {
		t.Errorf("before %+v, after %+v", was, is)
	}
}

func TestDangerouslyAllowOnError(t *testing.T) {
	trap := write(t, w.Policy(1).Hook("flynn_tool", "", w.Op(0)))
	deny := write(t, version(7, 1))
	for _, c := range []struct {
		name   string
		chain  []Source
		denied bool
		passed []int64
	}{
		{"a trap", []Source{{Path: trap, AllowOnError: true}}, false, []int64{1}},
		{"no module", []Source{{Path: "/nonexistent.wasm", AllowOnError: true}}, false, []int64{1}},
		{"what it decides stays", []Source{{Path: deny, AllowOnError: true}}, true, []int64{0}},
		{"what others decide stays", []Source{{Path: trap, AllowOnError: true}, {Path: deny}}, true, []int64{1, 0}},
		{"others still fail closed", []Source{{Path: trap, AllowOnError: true}, {Path: trap}}, true, []int64{1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.chain {
				c.chain[i].Name, c.chain[i].Kinds = string(rune('a'+i)), []string{KindTool}
			}
			var log bytes.Buffer
			e, err := New(context.Background(), Config{Sources: c.chain, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			log.Reset()
			s := e.Pin()
			defer s.Release()
			r, records := s.Tool(t.Context(), toolFacts())
			if r.Deny != c.denied || !c.denied && len(r.Reasons) > 0 {
				t.Errorf("demands %+v", r)
			}
			for i, st := range e.Status() {
				if st.Passed != c.passed[i] || st.AllowOnError != c.chain[i].AllowOnError || st.AllowOnError != strings.Contains(st.Warning, "restricts nothing") {
					t.Errorf("status %+v", st)
				}
				if c.passed[i] > 0 && (records[i].Error == "" || records[i].Answer != "none") {
					t.Errorf("record %+v", records[i])
				}
			}
			if strings.Contains(log.String(), "dangerously_allow_on_error") != (c.passed[0] > 0) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}
