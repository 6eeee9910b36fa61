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
	if source.Limits.Wall == 0 {
		source.Limits.Wall = 10 * time.Second // a busy machine is no fault of the policy
	}
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
		"two answers":             {`route := {"agent": "coder", "drop": true}`, "", "", "answer: route has more than one"},
		"an unknown key":          {`route := {"agnet": "coder"}`, "", "", "answer: "},
		"a string":                {`route := "coder"`, "", "", `answer: route is the string "coder"`},
		"a conflict": {"route := {\"agent\": \"coder\"} if input.role == \"member\"\nroute := {\"agent\": \"helper\"} if input.addressed", "", "",
			"trap: policy.rego:4"},
		"data":                        {`route := {"agent": data.chosen}`, "agent coder", "", ""},
		"a host builtin":              {`route := {"agent": "coder", "reason": sprintf("%s %d %v", [input.sender, input.turns, input.labels])}`, "agent coder", `irc:bob 3 ["web:example.com", "odd\"label"]`, ""},
		"a host builtin that refuses": {`route := {"agent": "coder", "reason": sprintf("%99999d", [1])}`, "", "", "trap: sprintf"},
		"an undefined builtin":        {`route := {"agent": "coder"} if time.parse_rfc3339_ns("soon") > 0`, "abstain", "", ""},
		"time":                        {`route := {"agent": "coder"} if time.parse_rfc3339_ns("2023-11-14T22:13:20Z") == input.unix_time * 1000000000`, "agent coder", "", ""},
		"flynn's matching": {`route := {"agent": "coder"} if {
			flynn.glob("irc:{al,bob}", input.sender)
			flynn.domain("example.com", "a.Example.com.")
			flynn.cidr("10.0.0.7", "::ffff:10.0.0.7")
			flynn.re2("^irc:b", input.sender)
			not flynn.glob("irc:a*", input.sender) }`, "agent coder", "", ""},
		"a bad pattern": {`route := {"agent": "coder"} if not flynn.glob("[", input.sender)`, "", "", "trap: flynn.glob: the pattern"},
		"glob, regex, cidr": {`route := {"agent": "coder"} if {
			glob.match("irc:*", null, input.sender)
			regex.match("^irc:b", input.sender)
			net.cidr_contains("10.0.0.0/8", "10.1.2.3") }`, "agent coder", "", ""},
	} {
		path := compiled(t, c.rule, "route")
		for _, isolation := range []string{policy.IsolationPure, policy.IsolationWarm} {
			t.Run(name+" "+isolation, func(t *testing.T) {
				m := opened(t, policy.Source{Name: "p", Path: path, Kinds: []string{"route"}, Isolation: isolation,
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
		t.Fatalf("replayed differently, call %d: %.99s, %d; %.99s, %d", again.Call, again.Was.Answer+again.Was.Reason, again.Was.Fuel, again.Is.Answer+again.Is.Reason, again.Is.Fuel)
	}
}

func TestTool(t *testing.T) {
	const guard = `
tool contains {"deny": true, "reason": "no shell for guests", "rule": 1} if {
	input.effect == "execute"
	input.role == "guest"
}

tool contains {"ask": true, "reason": "it removes", "rule": 3} if contains(input.args.command, "rm ")

tool contains {"sandbox": "strict", "reason": "it came from the web", "rule": 2} if {
	some label in input.labels
	startswith(label, "web:")
}
`
	m := opened(t, policy.Source{Name: "p", Path: compiled(t, guard, "tool"), Kinds: []string{"tool"}})
	for name, c := range map[string]struct {
		change func(*policy.ToolFacts)
		answer string
		reason string
		rule   uint32
	}{
		"the web":        {func(*policy.ToolFacts) {}, "sandbox strict", "it came from the web", 2},
		"nothing":        {func(f *policy.ToolFacts) { f.Labels = nil }, "none", "", 0},
		"three of three": {func(f *policy.ToolFacts) { f.Role, f.Args = "guest", json.RawMessage(`{"command":"rm -r /"}`) }, "deny, ask, sandbox strict", "no shell for guests; it came from the web; it removes", 1},
		"no arguments":   {func(f *policy.ToolFacts) { f.Labels, f.Args = nil, nil }, "none", "", 0},
		"odd arguments":  {func(f *policy.ToolFacts) { f.Labels, f.Args = nil, json.RawMessage(`[1e999,"\ud83d\ude00"]`) }, "none", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := toolFacts(`{"command":"ls"}`)
			c.change(&f)
			_, r := m.Tool(t.Context(), f)
			if r.Error != "" || r.Answer != c.answer || r.Reason != c.reason || r.Rule != c.rule {
				t.Errorf("got %q, rule %d because %q, error %q", r.Answer, r.Rule, r.Reason, r.Error)
			}
			mustReplay(t, m, r)
		})
	}
}

// The document has all facts of the frame, and a replay makes the same document of a record that has been through JSON.
func TestInputDocument(t *testing.T) {
	const echo = `route := {"agent": "coder", "reason": json.marshal(input)}`
	m := opened(t, policy.Source{Name: "p", Path: compiled(t, echo, "route"), Kinds: []string{"route"}})
	for name, text := range map[string]string{
		"short": "hé\xffllo \"you\"\n\x01\\", "long": strings.Repeat("wörd ", 500),
	} {
		t.Run(name, func(t *testing.T) {
			f := routeFacts()
			f.Message.Text = text
			_, r := m.Route(t.Context(), f)
			var got map[string]any
			if err := json.Unmarshal([]byte(r.Reason), &got); err != nil || r.Error != "" {
				t.Fatalf("%v, %s, %q", err, r.Error, r.Reason)
			}
			for key, want := range map[string]any{
				"channel": "irc", "conversation": "#c", "conversation_kind": "group", "parent": "", "sender": "irc:bob", "sender_name": "Bób", "account": "",
				"role": "member", "text": strings.ToValidUTF8(text, "\ufffd"), "text_len": float64(len(text)), "addressed": true, "attachments": 0.0, "door": "channel",
				"unix_time": 1.7e9, "minute_of_day": 1333.0, "weekday": 2.0, "zone": "UTC", "seed": -7.0, "edited": false, "mentioned": false,
				"session_tokens": 12345.0, "session_cost": 99.0, "session_age": 3600.0, "turns": 3.0, "candidate": "helper",
			} {
				if got[key] != want {
					t.Errorf("%s is %#v, want %#v", key, got[key], want)
				}
			}
			lists, _ := json.Marshal([]any{got["labels"], got["sender_roles"], got["attachment_types"], got["agents"]})
			if want := `[["web:example.com","odd\"label"],["op"],[],["helper","coder"]]`; string(lists) != want {
				t.Errorf("lists are %s, want %s", lists, want)
			}
			if len(got) != 29 {
				t.Errorf("%d keys: %v", len(got), got)
			}
			stored, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var again policy.Record
			if err := json.Unmarshal(stored, &again); err != nil {
				t.Fatal(err)
			}
			mustReplay(t, m, again)
		})
	}
}

func TestLimitsHold(t *testing.T) {
	const heavy = `route := {"agent": "coder"} if count([1 | some i in numbers.range(1, 3000); some j in numbers.range(1, 3000); i * j == 7]) > 0`
	const print = `route := {"agent": "coder", "reason": concat("", [sprintf("%d", [i]) | some i in numbers.range(1, 500)])}`
	for name, c := range map[string]struct {
		rule   string
		limits policy.Limits
		want   string
	}{
		"fuel":       {heavy, policy.Limits{}, "fuel: "},
		"memory":     {heavy, policy.Limits{Fuel: 1e9, Memory: 1 << 20, Wall: 10 * time.Second}, "memory: "},
		"wall":       {heavy, policy.Limits{Fuel: 1e10, Memory: 1 << 30, Wall: time.Millisecond}, "deadline: "},
		"host calls": {print, policy.Limits{}, "calls: "},
		"an answer":  {`route := {"agent": "coder", "reason": concat("", [input.text | some i in numbers.range(1, 20000)])}`, policy.Limits{Fuel: 1e9, Wall: 10 * time.Second}, "answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := opened(t, policy.Source{Name: "p", Path: compiled(t, c.rule, "route"), Kinds: []string{"route"}, Limits: c.limits, OnErrorAgent: "helper"})
			for range 3 {
				a, r := m.Route(t.Context(), routeFacts())
				if !strings.HasPrefix(r.Error, c.want) || !a.Failed || a.Agent != "helper" {
					t.Fatalf("got %+v, error %q", a, r.Error)
				}
			}
		})
	}
}

func TestDeepAndLongArgumentsFailClosed(t *testing.T) {
	m := opened(t, policy.Source{Name: "p", Path: compiled(t, `tool contains {"ask": true} if input.args.x`, "tool"), Kinds: []string{"tool"}})
	for name, c := range map[string]struct{ args, want string }{
		"deep":        {strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "depth: "},
		"long":        {`"` + strings.Repeat("x", 3<<20) + `"`, "fuel: "},
		"no JSON":     {`{"x":`, "facts: "},
		"half a rune": {`{"x":"\ud800"}`, "trap: "},
	} {
		t.Run(name, func(t *testing.T) {
			a, r := m.Tool(t.Context(), toolFacts(c.args))
			if !a.Deny || !strings.HasPrefix(r.Error, c.want) {
				t.Errorf("got %+v, error %q", a, r.Error)
			}
		})
	}
	if a, r := m.Tool(t.Context(), toolFacts(`{"x":1}`)); !a.Ask || a.Deny {
		t.Errorf("after the failures: %+v, %q", a, r.Error)
	}
}

// A warm instance answers as one in its first state does, for the same fuel, and its memory stays what it was.
func TestWarmIsPure(t *testing.T) {
	const rules = `
route := {"agent": "coder", "reason": sprintf("%s, %d", [upper(input.text), count(words)])} if count(words) > 3
words := {w | some w in split(input.text, " ")}
`
	source := policy.Source{Name: "p", Path: compiled(t, rules, "route"), Kinds: []string{"route"}, Isolation: policy.IsolationWarm,
		Limits: policy.Limits{Wall: 10 * time.Second}}
	engine, err := policy.New(t.Context(), policy.Config{Sources: []policy.Source{source}})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	set := engine.Pin()
	defer set.Release()
	source.Isolation = policy.IsolationPure
	pure := opened(t, source)
	for n := range 3000 {
		f := routeFacts()
		f.Message.Text = strings.Repeat("a b c d ", n%30)
		_, warm := set.Route(t.Context(), f)
		if n > 30 && n%100 != 0 {
			continue
		}
		_, first := pure.Route(t.Context(), f)
		if w := warm[0]; w.Error != "" || w.Answer != first.Answer || w.Reason != first.Reason || w.Fuel != first.Fuel {
			t.Fatalf("decision %d: %q for %d, and %q for %d in the first state; %s", n, w.Answer, w.Fuel, first.Answer, first.Fuel, w.Error)
		}
	}
	if s := engine.Status()[0]; s.Stateful != 0 || s.MemoryEach > 1<<20 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

// A module is handed what its rules look at, so that a long text or large arguments cost nothing to a policy that does not read them.
func TestOnlyWhatIsReadIsHandedOver(t *testing.T) {
	long := toolFacts(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	long.Message.Text = strings.Repeat("é", 30_000)
	for name, c := range map[string]struct{ rule, answer, calls string }{
		"a fact":                {`tool contains {"deny": true} if input.role == "member"`, "deny", ""},
		"none":                  {`tool contains {"ask": true}`, "ask", ""},
		"by way of a variable":  {"tool contains {\"deny\": true} if {\n\tall := input\n\tall.role == \"member\"\n\tall.args\n}", "deny", "args text"},
		"by a computed name":    {`tool contains {"deny": true} if input[concat("", ["ro", "le"])] == "member"`, "deny", "args text"},
		"in a function's with":  {"tool contains {\"deny\": true} if member with input as object.union(input, {\"role\": \"member\"})\nmember if input.role == \"member\"", "deny", "args text"},
		"some key of all":       {`tool contains {"deny": true} if {some k; input[k] == "member"}`, "deny", "args text"},
		"nested in another ref": {`tool contains {"deny": true} if data.x[input.role]`, "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := opened(t, policy.Source{Name: "p", Path: compiled(t, c.rule, "tool"), Kinds: []string{"tool"}})
			f := toolFacts(`{"x":1}`)
			if c.calls == "" {
				f = long
			}
			_, r := m.Tool(t.Context(), f)
			if r.Error != "" || r.Answer != c.answer || string(r.Calls[0].Args) != c.calls {
				t.Errorf("got %q with %q, error %q", r.Answer, r.Calls[0].Args, r.Error)
			}
			mustReplay(t, m, r)
		})
	}
}
