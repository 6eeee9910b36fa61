package rego_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/rego"
)

// compiled writes the module of a policy of one file.
func compiled(t testing.TB, source string, kinds ...string) string {
	t.Helper()
	wasm, err := rego.Compile(t.Context(), fstest.MapFS{"policy.rego": {Data: []byte("package flynn\n\n" + source)}}, kinds)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// opened is a module that the engine has loaded.
func opened(t testing.TB, source policy.Source) *policy.Module {
	t.Helper()
	m, err := policy.Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func facts() policy.Facts {
	return policy.Facts{
		Message: message.Message{
			Channel: "irc", Text: "hello \"you\"\n\x01", Addressed: true, Conversation: message.Conversation{ID: "#c", Kind: message.Group},
			Sender: message.Sender{ID: "bob", Name: "Bób", Roles: []string{"op"}},
		},
		Role: "member", Door: "channel", Labels: []string{"web:example.com", `odd"label`}, Now: time.Unix(1_700_000_000, 0).UTC(), Seed: -7,
		Used: policy.Usage{Turns: 3, Tokens: 12345, Cost: 99, Age: time.Hour},
	}
}

func routeFacts() policy.RouteFacts {
	return policy.RouteFacts{Facts: facts(), Candidate: "helper", Agents: []string{"helper", "coder"}}
}

func toolFacts(args string) policy.ToolFacts {
	return policy.ToolFacts{Facts: facts(), Agent: "helper", Session: "s", Tool: "shell.exec", Effect: "execute", Args: json.RawMessage(args), CallsInTurn: 2}
}

func TestRoute(t *testing.T) {
	for name, c := range map[string]struct{ rule, answer, reason, err string }{
		"undefined abstains":      {`route := {"agent": "coder"} if input.role == "owner"`, "abstain", "", ""},
		"an agent":                {`route := {"agent": "coder", "reason": "a member", "rule": 7} if input.role == "member"`, "agent coder", "a member", ""},
		"a rule without a reason": {`route := {"agent": "coder", "rule": 7}`, "agent coder", "rule 7", ""},
		"drop":                    {`route := {"drop": true}`, "drop", "", ""},
		"an else chain":           {`route := {"agent": "x"} if input.text == "" else := {"agent": "helper"} if startswith(input.sender, "irc:")`, "agent helper", "", ""},
		"an unknown agent":        {`route := {"agent": "nobody"}`, "", "", "agent: "},
		"no agent":                {`route := {"reason": "x"}`, "", "", "answer: route names no agent"},
		"two answers":             {`route := {"agent": "coder", "drop": true}`, "", "", "answer: route has both"},
		"an unknown key":          {`route := {"agnet": "coder"}`, "", "", "answer: "},
		"a string":                {`route := "coder"`, "", "", `answer: route is the string "coder"`},
		"a conflict": {"route := {\"agent\": \"coder\"} if input.role == \"member\"\nroute := {\"agent\": \"helper\"} if input.addressed", "", "",
			"trap: policy.rego:4"},
		"data":                        {`route := {"agent": data.chosen}`, "agent coder", "", ""},
		"a host builtin":              {`route := {"agent": "coder", "reason": sprintf("%s %d %v", [input.sender, input.turns, input.labels])}`, "agent coder", `irc:bob 3 ["web:example.com", "odd\"label"]`, ""},
		"a host builtin that refuses": {`route := {"agent": "coder", "reason": sprintf("%99999d", [1])}`, "", "", "trap: sprintf"},
		"an undefined builtin":        {`route := {"agent": "coder"} if time.parse_rfc3339_ns("soon") > 0`, "abstain", "", ""},
		"time":                        {`route := {"agent": "coder"} if time.parse_rfc3339_ns("2023-11-14T22:13:20Z") == input.unix_time * 1000000000`, "agent coder", "", ""},
		"glob, regex, cidr": {`route := {"agent": "coder"} if {
			glob.match("irc:*", null, input.sender)
			regex.match("^irc:b", input.sender)
			net.cidr_contains("10.0.0.0/8", "10.1.2.3") }`, "agent coder", "", ""},
	} {
		for _, isolation := range []string{policy.IsolationPure, policy.IsolationWarm} {
			t.Run(name+" "+isolation, func(t *testing.T) {
				m := opened(t, policy.Source{Name: "p", Path: compiled(t, c.rule, "route"), Kinds: []string{"route"}, Isolation: isolation,
					Data: map[string]string{"chosen": "coder"}})
				var fuel int64
				for range 3 {
					_, r := m.Route(t.Context(), routeFacts())
					if c.err != "" && !strings.HasPrefix(r.Error, c.err) || c.err == "" && (r.Error != "" || r.Answer != c.answer || r.Reason != c.reason) {
						t.Fatalf("got %q because %q, error %q", r.Answer, r.Reason, r.Error)
					}
					if isolation == policy.IsolationWarm && strings.Contains(c.rule, "regex.") {
						continue // OPA's regular expressions set something up that outlives a decision
					}
					if fuel == 0 {
						fuel = r.Fuel
					} else if fuel != r.Fuel {
						t.Fatalf("fuel %d, and %d before", r.Fuel, fuel)
					}
					mustReplay(t, m, r)
				}
			})
		}
	}
}

// mustReplay asks a decision again.
func mustReplay(t *testing.T, m *policy.Module, r policy.Record) {
	t.Helper()
	again, err := m.Replay(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !again.Same() {
		t.Fatalf("replayed differently, call %d:\n%+v\n%+v", again.Call, again.Was, again.Is)
	}
}
