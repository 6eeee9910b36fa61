package author

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCaseErrors(t *testing.T) {
	const good = `[[case]]
name = "a"
facts = { role = "owner" }
want = { abstain = true }
`
	for _, c := range []struct{ name, from, to, want string }{
		{"no name", `name = "a"`, ``, "name of its own"},
		{"the same name twice", good, good + good, "name of its own"},
		{"an unknown fact", `role =`, `rol =`, `unknown key "case.facts.rol"`},
		{"a fact of another type", `"owner"`, `1`, `case "a"`},
		{"a kind that the policy has not", `name = "a"`, "name = \"a\"\nkind = \"tool\"", `kind = "tool"`},
		{"a time that is none", `role = "owner"`, `now = "noon"`, `now = "noon"`},
		{"a zone that is none", `role = "owner"`, `zone = "Mars/Base"`, `zone = "Mars/Base"`},
		{"a sender without its channel", `role = "owner"`, `sender = "bob"`, "instance:platform-id"},
		{"a sender of another channel", `role = "owner"`, `sender = "irc:bob", channel = "slack"`, "not of channel"},
		{"nothing wanted", `abstain = true`, ``, "write one of"},
		{"two answers wanted", `abstain = true`, `abstain = true, drop = true`, "write one of"},
		{"another kind's answer", `abstain = true`, `deny = true`, "write one of"},
		{"an error and an answer", `abstain = true`, `abstain = true, error = "fuel"`, "not both"},
		{"no case at all", good, ``, "has no cases"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, map[string]string{manifestFile: cManifest, "cases/a.toml": strings.Replace(good, c.from, c.to, 1)})
			m, err := LoadManifest(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := LoadCases(dir, m); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestACaseInheritsItsFilesFacts(t *testing.T) {
	dir := folder(t, map[string]string{manifestFile: cManifest + "data.from = \"manifest\"\n", filepath.Join("cases", "a.toml"): `
[facts]
role = "owner"
labels = ["a", "b"]

[[case]]
name = "changes its copy"
facts = { labels = ["c"] }
data = { from = "case" }
want = { drop = true }

[[case]]
name = "has the file's"
facts = { sender = "irc:bob" }
want = { agent = "x" }
`})
	m, err := LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadCases(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	one, two := cases[0], cases[1]
	if one.Ask.Role != "owner" || len(one.Ask.Labels) != 1 || one.Data["from"] != "case" || one.Ask.Sender != "test:guest" {
		t.Errorf("first case: %+v", one)
	}
	if two.Ask.Role != "owner" || strings.Join(two.Ask.Labels, " ") != "a b" || two.Data["from"] != "manifest" || two.Ask.Channel != "irc" {
		t.Errorf("second case: %+v", two)
	}
}

func TestDiffNamesTheFields(t *testing.T) {
	rule, reason := uint32(3), "because"
	for _, c := range []struct {
		name string
		want Want
		got  Outcome
		diff string
	}{
		{"the same", Want{Agent: "a", Rule: &rule}, Outcome{Answer: "agent", Agent: "a", Rule: 3, Reason: "any"}, ""},
		{"another agent", Want{Agent: "a"}, Outcome{Answer: "agent", Agent: "b"}, `agent: want "a", got "b"`},
		{"another answer", Want{Drop: true}, Outcome{Answer: "abstain"}, `answer: want "drop", got "abstain"`},
		{"another rule", Want{Abstain: true, Rule: &rule}, Outcome{Answer: "abstain", Rule: 4}, "rule: want 3, got 4"},
		{"another reason", Want{Abstain: true, Reason: &reason}, Outcome{Answer: "abstain"}, `reason: want "because", got ""`},
		{"a restriction too many", Want{Deny: true}, Outcome{Answer: "restricted", Deny: true, Ask: true}, "ask: want false, got true"},
		{"a restriction too few", Want{Deny: true, Sandbox: true}, Outcome{Answer: "restricted", Deny: true}, "sandbox: want true, got false"},
		{"any sandbox", Want{Sandbox: true}, Outcome{Answer: "restricted", Sandbox: true, SandboxName: "x"}, ""},
		{"another sandbox", Want{Sandbox: "y"}, Outcome{Answer: "restricted", Sandbox: true, SandboxName: "x"}, `sandbox name: want "y", got "x"`},
		{"a failure", Want{Abstain: true}, Outcome{Answer: "error", Error: "fuel: used up"}, "error: want none, got fuel: used up"},
		{"the failure", Want{Error: "fuel"}, Outcome{Answer: "error", Error: "fuel: used up"}, ""},
		{"another failure", Want{Error: "trap"}, Outcome{Answer: "error", Error: "fuel: used up"}, "error: want trap, got fuel: used up"},
		{"no failure", Want{Error: "trap"}, Outcome{Answer: "abstain"}, "error: want trap, got none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, d := range c.want.diff(c.got) {
				got = append(got, d.String())
			}
			if strings.Join(got, "; ") != c.diff {
				t.Errorf("got %q, want %q", strings.Join(got, "; "), c.diff)
			}
		})
	}
}
