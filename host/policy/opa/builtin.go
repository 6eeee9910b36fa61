package opa

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Builtin is a function that OPA's compiler leaves to the host. It is pure: its result depends on its arguments alone. ErrUndefined is what
// OPA makes of arguments that do not suit, and makes the expression undefined; any other error ends the decision.
type Builtin struct {
	Name  string
	Arity int
	Call  func(args []any) (result any, err error)
	// Match is one of abi.MatchGlob and so on, of a function (pattern, string) that the engine itself answers, as in every other
	// language; Call is nil then. A bad pattern ends the decision.
	Match uint32
}

// ErrUndefined is the error of a builtin that has no result.
var ErrUndefined = errors.New("undefined")

// Builtins are all that the host offers. Almost everything else that is pure is compiled into the module and metered with it.
func Builtins() []Builtin {
	return []Builtin{
		{Name: "flynn.cidr", Arity: 2, Match: abi.MatchCIDR},
		{Name: "flynn.domain", Arity: 2, Match: abi.MatchDomain},
		{Name: "flynn.glob", Arity: 2, Match: abi.MatchGlob},
		{Name: "flynn.re2", Arity: 2, Match: abi.MatchRE2},
		{Name: "sprintf", Arity: 2, Call: sprintf},
		{Name: "strings.any_prefix_match", Arity: 2, Call: func(a []any) (any, error) { return anyMatch(a, strings.HasPrefix) }},
		{Name: "strings.any_suffix_match", Arity: 2, Call: func(a []any) (any, error) { return anyMatch(a, strings.HasSuffix) }},
		{Name: "strings.count", Arity: 2, Call: countStrings},
		{Name: "time.parse_duration_ns", Arity: 1, Call: parseDuration},
		{Name: "time.parse_rfc3339_ns", Arity: 1, Call: parseRFC3339},
	}
}

// BuiltinNamed finds one.
func BuiltinNamed(name string) (Builtin, bool) {
	all := Builtins()
	i := slices.IndexFunc(all, func(b Builtin) bool { return b.Name == name })
	if i < 0 {
		return Builtin{}, false
	}
	return all[i], true
}

// Names are the names of the builtins.
func Names() []string {
	var names []string
	for _, b := range Builtins() {
		names = append(names, b.Name)
	}
	return names
}

// wide finds what would make a short format write a long text: a width from the arguments or of four digits, and an argument that is
// written many times.
var wide = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[-+# 0-9.]*(\*|\[|[0-9]{4})`) })

// Bounds of a format, and of one whole number in its arguments, in bytes.
const (
	maxFormat = 4 << 10
	maxDigits = 1 << 10
)

// sprintf is OPA's: whole numbers are integers to the verbs, other numbers floats, and what is no scalar is written as Rego writes it. A
// set has become an array on the way out of the module.
func sprintf(args []any) (any, error) {
	format, ok := args[0].(string)
	list, isList := args[1].([]any)
	switch {
	case !ok || !isList:
		return nil, ErrUndefined
	case len(format) > maxFormat:
		return nil, fmt.Errorf("a format of %d bytes, at most %d are allowed", len(format), maxFormat)
	case wide().MatchString(format):
		return nil, fmt.Errorf("the format %.80q has a width of four digits, a * or an index, which are not offered", format)
	}
	values := make([]any, len(list))
	for i, v := range list {
		values[i] = formatted(v)
	}
	return fmt.Sprintf(format, values...), nil
}

func formatted(v any) any {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return formattedNumber(v)
	}
	var b strings.Builder
	writeTerm(&b, v)
	return b.String()
}

func formattedNumber(v json.Number) any {
	text := v.String()
	if n, err := v.Int64(); err == nil {
		return n
	}
	if strings.ContainsAny(text, ".eE") {
		if x, err := v.Float64(); err == nil {
			return x
		}
		return text
	}
	if n, ok := new(big.Int).SetString(text[:min(len(text), maxDigits)], 10); ok && len(text) <= maxDigits {
		return n
	}
	return text
}

// writeTerm writes a value as Rego prints it.
func writeTerm(b *strings.Builder, v any) {
	switch v := v.(type) {
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			separate(b, i)
			writeTerm(b, item)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			separate(b, i)
			writeTerm(b, key)
			b.WriteString(": ")
			writeTerm(b, v[key])
		}
		b.WriteByte('}')
	default:
		writeScalar(b, v)
	}
}

func separate(b *strings.Builder, i int) {
	if i > 0 {
		b.WriteString(", ")
	}
}

func writeScalar(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case string:
		b.WriteString(strconv.Quote(v))
	default:
		fmt.Fprint(b, v)
	}
}

// anyMatch compares each string with each base; either may be one string or several.
func anyMatch(args []any, match func(s, base string) bool) (any, error) {
	search, ok1 := stringsOf(args[0])
	bases, ok2 := stringsOf(args[1])
	switch {
	case !ok1 || !ok2:
		return nil, ErrUndefined
	case len(search)*len(bases) > maxPairs:
		return nil, fmt.Errorf("%d strings and %d bases make more than %d pairs", len(search), len(bases), maxPairs)
	}
	return slices.ContainsFunc(search, func(s string) bool {
		return slices.ContainsFunc(bases, func(base string) bool { return match(s, base) })
	}), nil
}

// maxPairs bounds the comparisons of one call.
const maxPairs = 64 << 10

func stringsOf(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		list := make([]string, len(v))
		for i, item := range v {
			s, ok := item.(string)
			if !ok {
				return nil, false
			}
			list[i] = s
		}
		return list, true
	}
	return nil, false
}

func countStrings(args []any) (any, error) {
	s, ok1 := args[0].(string)
	part, ok2 := args[1].(string)
	if !ok1 || !ok2 {
		return nil, ErrUndefined
	}
	return strings.Count(s, part), nil
}

func parseDuration(args []any) (any, error) {
	s, ok := args[0].(string)
	if !ok {
		return nil, ErrUndefined
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, ErrUndefined
	}
	return d.Nanoseconds(), nil
}

// parseRFC3339 has no result outside of what nanoseconds can count, as OPA's.
func parseRFC3339(args []any) (any, error) {
	s, ok := args[0].(string)
	if !ok {
		return nil, ErrUndefined
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Before(time.Unix(0, math.MinInt64)) || t.After(time.Unix(0, math.MaxInt64)) {
		return nil, ErrUndefined
	}
	return t.UnixNano(), nil
}
