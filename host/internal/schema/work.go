package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A few lines of schema can ask for more work than a machine can do: thirty definitions, each of which refers twice to the next one, are a
// thousand million schemas to hold a value against, so what a schema unfolds to is counted before it is used.

// bounded refuses a schema that asks for too much work.
func bounded(s *node, use Use) error {
	c := counter{use: use, done: map[*node]int{}, open: map[*node]bool{}}
	todo := []*node{s}
	for seen := map[*node]bool{s: true}; len(todo) > 0; {
		s, todo = todo[0], todo[1:]
		if _, err := c.count(s); err != nil {
			return err
		}
		for _, next := range slices.Concat(here(s), below(s)) {
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return nil
}

// counter counts the schemas that schemas unfold to.
type counter struct {
	use  Use
	done map[*node]int
	open map[*node]bool // under way: meeting one again is a circle
}

var errCircle = errors.New("the schema refers to itself without an end")

func (c *counter) count(s *node) (int, error) {
	if n, ok := c.done[s]; ok {
		return n, nil
	}
	if c.open[s] {
		return 0, errCircle
	}
	c.open[s] = true
	defer delete(c.open, s)
	inner := here(s)
	if c.use == Settings {
		inner = append(inner, below(s)...)
	}
	total := 1
	for _, next := range inner {
		n, err := c.count(next)
		if err != nil {
			return 0, err
		}
		if total += n; total > maxWork {
			return 0, fmt.Errorf("the schema unfolds to more than %d schemas", maxWork)
		}
	}
	c.done[s] = total
	return total, nil
}

// here are the schemas that n applies to the same value.
func here(n *node) []*node {
	out := slices.Concat(n.refs, n.AllOf, n.AnyOf, n.OneOf, []*node{n.Not, n.If, n.Then, n.Else})
	for _, table := range []map[string]dependency{n.Dependencies, n.DependentSchemas} {
		for _, d := range table {
			out = append(out, d.schema)
		}
	}
	return slices.DeleteFunc(out, isNil)
}

// below are the schemas that n applies to parts of the value.
func below(n *node) []*node {
	out := slices.Concat(n.PrefixItems, n.Items.each, slices.Collect(maps.Values(n.Properties)), slices.Collect(maps.Values(n.PatternProperties)),
		[]*node{n.Items.all, n.AdditionalItems, n.UnevaluatedItems, n.Contains, n.AdditionalProperties, n.UnevaluatedProperties, n.PropertyNames})
	return slices.DeleteFunc(out, isNil)
}

func isNil(n *node) bool { return n == nil }
