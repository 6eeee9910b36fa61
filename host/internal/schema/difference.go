package schema

import (
	"slices"
	"strings"
)

// Difference is one thing in which a value is not what its schema asks for.
type Difference struct {
	// Path leads to it by keys and the numbers of elements; empty for the whole value.
	Path []string
	// Problem says what is wrong. It quotes the schema, and nothing of the value: that could be a secret.
	Problem string
	// Unknown is set where the key itself is not one of the schema's.
	Unknown bool
}

// Bounds on what is told.
const (
	maxDifferences = 20
	maxProblem     = 300 // bytes
)

func newDifference(path []string, problem string) Difference {
	if len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "…"
	}
	return Difference{Path: slices.Clone(path), Problem: problem}
}

// Differences says where a value, as encoding/json decodes it, differs from the schema, in the order of their paths.
func (s *Schema) Differences(value any) []Difference {
	w := walk{use: s.use}
	w.check(s.root, value, nil)
	slices.SortFunc(w.out, func(a, b Difference) int {
		if c := slices.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Problem, b.Problem)
	})
	out := slices.CompactFunc(w.out, func(a, b Difference) bool { return slices.Equal(a.Path, b.Path) && a.Problem == b.Problem })
	return out[:min(len(out), maxDifferences)]
}
