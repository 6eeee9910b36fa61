package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A few lines of schema can cause more work than a machine can do: thirty definitions, each of which refers twice to the next one, unfold
// to a thousand million schemas. The library has no bound, so the unfolded schemas are counted before use.

// bounded refuses a schema that causes too much work.
func bounded(s *jsonschema.Schema, use Use) error {
	c := counter{use: use, done: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{}}
	todo := []*jsonschema.Schema{s}
	for seen := map[*jsonschema.Schema]bool{s: true}; len(todo) > 0; {
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
	done map[*jsonschema.Schema]int
	open map[*jsonschema.Schema]bool // under way: meeting one again is a cycle
}

var errCycle = errors.New("the schema refers to itself without an end")

func (c *counter) count(s *jsonschema.Schema) (int, error) {
	if n, ok := c.done[s]; ok {
		return n, nil
	}
	if c.open[s] {
		return 0, errCycle
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

// here are the schemas that s applies to the same value.
func here(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	out = append(out, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	for _, d := range s.Dependencies {
		out = appendSchemas(out, d)
	}
	return slices.DeleteFunc(out, isNil)
}

// below are the schemas that s applies to parts of the value.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat(slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)), s.PrefixItems)
	out = append(out, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	for _, v := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		out = appendSchemas(out, v)
	}
	return slices.DeleteFunc(out, isNil)
}

func isNil(s *jsonschema.Schema) bool { return s == nil }

// appendSchemas takes a field that the library leaves untyped: a schema, a list of them, or something else.
func appendSchemas(to []*jsonschema.Schema, v any) []*jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return append(to, v)
	case []*jsonschema.Schema:
		return append(to, v...)
	}
	return to
}
