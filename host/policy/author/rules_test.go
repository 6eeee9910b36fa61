package author

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
)

// ruleQuestions match the first rule, one in the middle, the last one and none.
func ruleQuestions(t testing.TB) (list []Case, want []string) {
	t.Helper()
	f := conformanceFacts()
	f.Agents = nil
	for i := range 20 {
		f.Agents = append(f.Agents, fmt.Sprintf("agent-%02d", i+1))
	}
	for _, q := range [][2]string{{"telegram:10055", "agent-01"}, {"discord:30019", "agent-06"}, {"slack:U0299", "agent-11"}, {"irc:alice", "agent-13"},
		{"irc:zoe", ""}, {"web:x", "agent-19"}, {"matrix:@a:b", "agent-20"}, {"signal:+1", ""}} {
		f.Sender, f.Channel = q[0], ""
		g := f
		if err := g.Settle(); err != nil {
			t.Fatal(err)
		}
		list, want = append(list, Case{Name: q[0], Kind: policy.KindRoute, Ask: g}), append(want, q[1])
	}
	return list, want
}

func TestRulesMatchFirst(t *testing.T) {
	t.Parallel()
	questions, want := ruleQuestions(t)
	for _, language := range []string{"c", "go", "rust", "assemblyscript"} {
		t.Run(language, func(t *testing.T) {
			a := rulesIn(t, language)
			for i, c := range questions {
				if o := outcomeOf(a.ask(t.Context(), c, nil)); o.Agent != want[i] || o.Error != "" {
					t.Errorf("%s: %v, want %q", c.Name, o, want[i])
				}
			}
		})
	}
}

// The costs of the SDKs on the engine, with all its limits on.
func BenchmarkRules(b *testing.B) {
	questions, _ := ruleQuestions(b)
	for _, language := range []string{"c", "go", "rust", "assemblyscript"} {
		b.Run(language, func(b *testing.B) {
			a := rulesIn(b, language)
			facts := questions[3].RouteFacts()
			b.ReportAllocs()
			for b.Loop() {
				a.Route(b.Context(), facts)
			}
		})
	}
}

func rulesIn(t testing.TB, language string) *Loading {
	t.Helper()
	dir := filepath.Join("testdata", "rules-"+language)
	mustBuild(t, dir)
	return mustOpen(t, dir, nil)
}
