package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/flynnhost/flynn/sdk/cut"
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

// Differences says where a value, as encoding/json decodes it, differs from the schema, in the order of their paths.
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
		if c := slices.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Problem, b.Problem)
	})
	out = slices.CompactFunc(out, func(a, b Difference) bool { return slices.Equal(a.Path, b.Path) && a.Problem == b.Problem })
	return out[:min(len(out), maxDifferences)]
}

// differences are the ends of the tree of errors. Alternatives are told as one: what is wrong with each of them helps nobody.
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
		return tell("it is none of the forms that are allowed, or several of them at once")
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return tell("it has too few or too many of the elements that are asked for")
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

// misformed is about a key that has not the form that its table asks for. Of the place only the depth is believed: the validator goes on to write to
// the slice that it hands out for this one (santhosh-tekuri/jsonschema#269). Where several tables at that depth have such a key, it is said to be below
// what they have in common.
func misformed(value any, depth int, key string) Difference {
	tables := holders(nil, value, depth, key)
	if len(tables) == 1 {
		return Difference{Path: append(tables[0], key), Problem: "it has not the form of a key here", Unknown: true}
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
	return Difference{Path: common, Problem: fmt.Sprintf("a key %.80q below has not the form of a key there", key)}
}

// holders are the paths, so many steps below the one given, of the tables that have a key.
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

// problem says what is wrong in words that hold nothing of the value but its type and its length.
func problem(of jsonschema.ErrorKind) string {
	switch k := of.(type) {
	case *kind.Type:
		return fmt.Sprintf("it is %s, want %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Enum:
		return "must be " + oneOf(k.Want)
	case *kind.Const:
		return "must be " + oneOf([]any{k.Want})
	case *kind.Format:
		return fmt.Sprintf("it is not of the format %s", k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("it does not match %s", k.Want)
	case *kind.Required:
		return "missing: " + strings.Join(k.Missing, ", ")
	case *kind.Dependency:
		return fmt.Sprintf("%s needs %s beside it", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.DependentRequired:
		return fmt.Sprintf("%s needs %s beside it", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.MinLength:
		return fmt.Sprintf("it has %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("it has %d characters, want at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("it has %d elements, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("it has %d elements, want at most %d", k.Got, k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("it has %d keys, want at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("it has %d keys, want at most %d", k.Got, k.Want)
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
	return "it is not what the schema asks for"
}

func oneOf(values []any) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprintf("%q", fmt.Sprint(v)))
	}
	return strings.Join(words, " or ")
}

// Keys are those that the schema names for the table at a path, as far as it can be followed through plain properties; nil elsewhere.
func (s *Schema) Keys(path ...string) []string {
	at := s.compiled
	for _, key := range path {
		if at = at.Properties[key]; at == nil {
			return nil
		}
	}
	var keys []string
	for key := range at.Properties {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
