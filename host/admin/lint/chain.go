package lint

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// Chain runs the policies on every case that lies beside one of their modules, with the data of the configuration. It reports policies that
// demand different sandboxes for one call, and policies that are never asked because an earlier one always decides. cases is the number of
// cases.
func Chain(ctx context.Context, c *config.Config, sources []policy.Source) (findings []config.Error, cases int, err error) {
	l := &linter{cfg: c, sources: sources}
	questions, err := l.questions()
	if err != nil || len(questions) == 0 {
		return nil, 0, err
	}
	engine, err := policy.New(ctx, policy.Config{Sources: everywhere(sources), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, 0, err
	}
	set := engine.Pin()
	w := newWitness(l)
	for _, q := range questions {
		if err = ctx.Err(); err != nil {
			break
		}
		if q.Kind == policy.KindRoute {
			f := q.RouteFacts()
			f.Agents = append(l.agents(), f.Agents...)
			_, records := set.Route(ctx, f)
			w.routed(records)
			continue
		}
		_, records := set.Tool(ctx, q.ToolFacts())
		w.demanded(records)
	}
	set.Release()
	if closing := engine.Close(); err == nil {
		err = closing
	}
	w.tell("in its cases")
	return l.sorted(), len(questions), err
}

// everywhere returns the policies without their scopes, because the agents and channels of cases are made up.
func everywhere(sources []policy.Source) []policy.Source {
	all := slices.Clone(sources)
	for i := range all {
		all[i].Agents, all[i].Channels = nil, nil
	}
	return all
}

// questions returns the cases of all policies.
func (l *linter) questions() ([]author.Case, error) {
	var all []author.Case
	seen := map[string]bool{}
	for _, s := range l.sources {
		dir := filepath.Dir(s.Path)
		if _, err := os.Stat(filepath.Join(dir, "policy.toml")); err != nil || seen[dir] {
			continue
		}
		seen[dir] = true
		m, err := author.LoadManifest(dir)
		if err != nil {
			return nil, err
		}
		cases, err := author.LoadCases(dir, m)
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

// witness collects the answers of policies.
type witness struct {
	l         *linter
	index     map[string]int
	asked     []int             // how often, for route policies
	decided   []int             // how often it decided
	conflicts map[[2]int]string // by earlier and later policy: the sandboxes that they demanded
}

func newWitness(l *linter) *witness {
	w := &witness{l: l, index: map[string]int{}, asked: make([]int, len(l.sources)), decided: make([]int, len(l.sources)), conflicts: map[[2]int]string{}}
	for i, s := range l.sources {
		w.index[s.Name] = i
	}
	return w
}

func (w *witness) routed(records []policy.Record) {
	for _, r := range records {
		if i, ok := w.index[r.Policy]; ok {
			w.asked[i]++
			if r.Answer != "abstain" {
				w.decided[i]++
			}
		}
	}
}

// demanded records which sandboxes a chain demands for one question.
func (w *witness) demanded(records []policy.Record) {
	for later, b := range records {
		for _, a := range records[:later] {
			i, known := w.index[a.Policy]
			j, known2 := w.index[b.Policy]
			one, two := demand(a.Answer), demand(b.Answer)
			if known && known2 && i != j && one != "" && two != "" && one != two {
				w.conflicts[[2]int{min(i, j), max(i, j)}] = fmt.Sprintf("%q and %q", one, two)
			}
		}
	}
}

// demand returns the sandbox that a record's answer names.
func demand(answer string) string {
	_, name, _ := strings.Cut(answer, "sandbox ")
	return name
}

// enough is the number of decisions from which a pattern is reported.
const enough = 5

// tell reports the findings.
func (w *witness) tell(where string) {
	for i := range w.l.sources {
		for j := range i {
			if how, ok := w.conflicts[[2]int{j, i}]; ok {
				w.l.conflict(i, j, how+" "+where)
			}
			w.shadowed(i, j, where)
		}
	}
}

// shadowed reports a route policy that was never asked, because an earlier one has always decided.
func (w *witness) shadowed(i, j int, where string) {
	later, earlier := w.l.sources[i], w.l.sources[j]
	if w.asked[i] > 0 || w.asked[j] < enough || w.decided[j] < w.asked[j] || !slices.Contains(later.Kinds, policy.KindRoute) {
		return
	}
	for _, agent := range append(w.l.candidates(), "") {
		for _, channel := range w.l.cfg.ChannelNames() {
			if later.Covers(agent, channel) && !earlier.Covers(agent, channel) {
				return
			}
		}
	}
	w.l.report(i, fmt.Sprintf("it was never asked: the earlier policy %q has decided everything %s, %d times", earlier.Name, where, w.asked[j]),
		"put it before that one, or let that one abstain", "name")
}
