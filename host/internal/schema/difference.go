package schema

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/flynnhost/flynn/sdk/cut"
)

// Difference is one point in which a value does not fit its schema.
type Difference struct {
	// Path leads to it by keys and the numbers of elements; empty for the whole value.
	Path []string
	// Problem says what is wrong. It quotes the schema, and nothing of the value: that could be a secret.
	Problem string
	// Unknown is set where the key itself is not one of the schema's.
	Unknown bool
}

// Bounds of a report.
const (
	maxDifferences = 20
	maxProblem     = 300 // bytes
)

// Differences returns where a value, as encoding/json decodes it, does not fit the schema, sorted by path.
func (s *Schema) Differences(value any) []Difference {
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Difference{{Problem: "it cannot be compared with the schema"}}
	}
	out := differences(nil, value, invalid)
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), strings.Compare(a.Problem, b.Problem))
	})
	out = slices.CompactFunc(out, func(a, b Difference) bool { return slices.Equal(a.Path, b.Path) && a.Problem == b.Problem })
	return out[:min(len(out), maxDifferences)]
}

// differences collects the leaves of the tree of errors. Alternatives count as one: a list of what is wrong with each helps nobody.
func differences(to []Difference, value any, e *jsonschema.ValidationError) []Difference {
	at := slices.Clone(e.InstanceLocation)
	tell := func(problem string) []Difference {
		if len(problem) > maxProblem {
			problem = cut.Head(problem, maxProblem) + "…"
		}
		return append(to, Difference{Path: at, Problem: problem})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, key := range k.Properties {
			to = append(to, Difference{Path: append(slices.Clone(at), key), Problem: "unknown key", Unknown: true})
		}
		return to
	case *kind.FalseSchema:
		return tell("it is not allowed here")
	case *kind.AnyOf, *kind.OneOf:
		return tell("it matches none of the allowed forms, or more than one")
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return tell("it has too few or too many elements of the required form")
	case *kind.PropertyNames:
		return append(to, misformed(value, len(at), k.Property))
	}
	if len(e.Causes) > 0 {
		for _, cause := range e.Causes {
			to = differences(to, value, cause)
		}
		return to
	}
	return tell(problem(e.ErrorKind))
}

// misformed describes a key whose form its table does not allow. Only the depth of the reported location is right: the validator goes on
// writing to the slice that it hands out here (santhosh-tekuri/jsonschema#269). If several tables at that depth have such a key, the path
// ends where theirs part.
func misformed(value any, depth int, key string) Difference {
	tables := holders(nil, value, depth, key)
	if len(tables) == 1 {
		return Difference{Path: append(tables[0], key), Problem: "a key of this form is not allowed here", Unknown: true}
	}
	var common []string
	for i, table := range tables {
		if i == 0 {
			common = table
		}
		same := 0
		for same < len(common) && common[same] == table[same] {
			same++
		}
		common = common[:same]
	}
	return Difference{Path: common, Problem: fmt.Sprintf("a key %.80q below has a form that is not allowed there", key)}
}

// holders returns the paths of the tables that have a key, depth steps below path.
func holders(path []string, value any, depth int, key string) (found [][]string) {
	below := func(step string, v any) {
		found = append(found, holders(append(slices.Clip(path), step), v, depth-1, key)...)
	}
	switch v := value.(type) {
	case map[string]any:
		if _, has := v[key]; depth == 0 && has {
			return [][]string{slices.Clone(path)}
		}
		for step, v := range v {
			if depth > 0 {
				below(step, v)
			}
		}
	case []any:
		for i, v := range v {
			if depth > 0 {
				below(strconv.Itoa(i), v)
			}
		}
	}
	return found
}

// problem describes an error without quoting the value: only its type and its length.
func problem(of jsonschema.ErrorKind) string {
	switch k := of.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "must be " + oneOf(k.Want)
	case *kind.Const:
		return "must be " + oneOf([]any{k.Want})
	case *kind.Format:
		return fmt.Sprintf("must have the format %s", k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("must match %s", k.Want)
	case *kind.Required:
		return "missing: " + strings.Join(k.Missing, ", ")
	case *kind.Dependency:
		return fmt.Sprintf("%s needs %s beside it", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.DependentRequired:
		return fmt.Sprintf("%s needs %s beside it", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d elements, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d elements, not %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d keys, not %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d keys, not %d", k.Want, k.Got)
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "must be more than " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "must be less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "must be a multiple of " + k.Want.RatString()
	case *kind.UniqueItems:
		return fmt.Sprintf("elements %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	}
	return "it does not fit the schema"
}

func oneOf(values []any) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprintf("%q", fmt.Sprint(v)))
	}
	return strings.Join(words, " or ")
}

// Keys returns the keys that the schema names for the table at a path. It follows plain properties alone and returns nil elsewhere.
func (s *Schema) Keys(path ...string) []string {
	at := s.compiled
	for _, key := range path {
		if at = at.Properties[key]; at == nil {
			return nil
		}
	}
	return slices.Sorted(maps.Keys(at.Properties))
}
