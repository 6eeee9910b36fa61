package lint

import (
	"crypto/sha256"
	"iter"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// Log reports the same as Chain, from decisions about real messages and calls, in the order of the log. seen is the number of decisions
// made by the current policies.
func Log(c *config.Config, sources []policy.Source, decisions iter.Seq2[journal.Decision, error]) (findings []config.Error, seen int, err error) {
	l := &linter{cfg: c, sources: sources}
	w := newWitness(l)
	var question [sha256.Size]byte
	var answers []policy.Record
	for d, err := range decisions {
		if err != nil {
			return nil, 0, err
		}
		if _, ours := w.index[d.Policy]; !ours || d.Kind != policy.KindRoute && d.Kind != policy.KindTool {
			continue
		}
		seen++
		r := policy.Record{Policy: d.Policy, Answer: d.Answer}
		if d.Kind == policy.KindRoute {
			w.routed([]policy.Record{r})
			continue
		}
		// The policies of a chain get the same frame, and are adjacent in the log.
		if q := sha256.Sum256(d.Frame); q != question {
			w.demanded(answers)
			question, answers = q, nil
		}
		answers = append(answers, r)
	}
	w.demanded(answers)
	w.tell("in the decision log")
	return l.sorted(), seen, nil
}
