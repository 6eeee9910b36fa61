package schema

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// walk holds a value against a schema, and notes each difference.
type walk struct {
	use  Use
	path []string
	out  []Difference
}

// evaluated are the keys of an object, or the numbers of a list's elements, that a schema has looked at, for unevaluatedProperties and
// unevaluatedItems. It is nil where no schema asks.
type evaluated map[string]bool

func (e evaluated) add(key string) {
	if e != nil {
		e[key] = true
	}
}

// differs notes a difference in what the walk is at.
func (w *walk) differs(format string, args ...any) {
	w.out = append(w.out, newDifference(w.path, fmt.Sprintf(format, args...)))
}

// inside holds a part of the value against a schema.
func (w *walk) inside(key string, n *node, v any) {
	w.path = append(w.path, key)
	w.check(n, v, nil)
	w.path = w.path[:len(w.path)-1]
}

// try holds a value against a schema and returns the differences instead of noting them.
func (w *walk) try(n *node, v any, seen evaluated) []Difference {
	branch := evaluated(nil)
	if seen != nil {
		branch = evaluated{}
	}
	before := len(w.out)
	w.check(n, v, branch)
	why := slices.Clone(w.out[before:])
	w.out = w.out[:before]
	if len(why) == 0 {
		maps.Copy(seen, branch)
	}
	return why
}

// check holds a value against a schema.
func (w *walk) check(n *node, v any, seen evaluated) {
	if n.never {
		w.differs("it is not allowed here")
		return
	}
	if n.UnevaluatedItems != nil || n.UnevaluatedProperties != nil {
		// They see what stands beside them and in it, and nothing of what stands around.
		outer := seen
		seen = evaluated{}
		defer func() {
			if outer != nil {
				maps.Copy(outer, seen)
			}
		}()
	}
	w.combined(n, v, seen)
	if len(n.Type) > 0 && !slices.ContainsFunc(n.Type, func(t string) bool { return is(v, t) }) {
		w.differs("it is %s, want %s", typeOf(v), strings.Join(n.Type, " or "))
	}
	for _, c := range []*choice{n.Enum, n.Const.choice} {
		if c != nil && !slices.Contains(c.identities, identity(v)) {
			w.differs("must be %s", c.want)
		}
	}
	switch v := v.(type) {
	case string:
		w.text(n, v)
	case []any:
		w.elements(n, v, seen)
	case map[string]any:
		w.members(n, v, seen)
	default:
		if r := rational(v); r != nil {
			w.number(n, r)
		}
	}
}

// combined holds a value against the schemas that say something about all of it.
func (w *walk) combined(n *node, v any, seen evaluated) {
	for _, next := range slices.Concat(n.refs, n.AllOf) {
		w.check(next, v, seen)
	}
	w.alternatives(n.AnyOf, v, seen, len(n.AnyOf))
	w.alternatives(n.OneOf, v, seen, 1)
	if n.Not != nil && len(w.try(n.Not, v, nil)) == 0 {
		w.differs("it is not what the schema asks for")
	}
	if n.If == nil {
		return
	}
	next := n.Then
	if len(w.try(n.If, v, seen)) > 0 {
		next = n.Else
	}
	if next != nil {
		w.check(next, v, seen)
	}
}

// alternatives holds a value against schemas of which at least one must fit, and no more than so many.
func (w *walk) alternatives(of []*node, v any, seen evaluated, most int) {
	if len(of) == 0 {
		return
	}
	fit := 0
	var why []Difference
	for _, n := range of {
		d := w.try(n, v, seen)
		if len(d) == 0 {
			fit++
		}
		why = append(why, d...)
	}
	if fit > 0 && fit <= most {
		return
	}
	w.differs("it is none of the forms that are allowed, or several of them at once")
	if fit == 0 && w.use == Arguments { // a person is not helped by what is wrong with each
		w.out = append(w.out, why...)
	}
}

func (w *walk) text(n *node, v string) {
	w.within(n.MinLength, n.MaxLength, utf8.RuneCountInString(v), "characters")
	if n.Pattern != nil && !n.Pattern.MatchString(v) {
		w.differs("it does not match %s", n.Pattern)
	}
	if !hasFormat(v, n.Format) {
		w.differs("it is not of the format %s", n.Format)
	}
}

func (w *walk) number(n *node, v *big.Rat) {
	if least := n.Minimum; least != nil && v.Cmp(least.Rat) < 0 {
		w.differs("must be at least %s", least.text)
	}
	if most := n.Maximum; most != nil && v.Cmp(most.Rat) > 0 {
		w.differs("must be at most %s", most.text)
	}
	if below := n.ExclusiveMinimum.number; below != nil && v.Cmp(below.Rat) <= 0 {
		w.differs("must be more than %s", below.text)
	}
	if above := n.ExclusiveMaximum.number; above != nil && v.Cmp(above.Rat) >= 0 {
		w.differs("must be less than %s", above.text)
	}
	if unit := n.MultipleOf; unit != nil && !new(big.Rat).Quo(v, unit.Rat).IsInt() {
		w.differs("must be a multiple of %s", unit.text)
	}
}

func (w *walk) elements(n *node, v []any, seen evaluated) {
	w.within(n.MinItems, n.MaxItems, len(v), "elements")
	for i, e := range v {
		key := strconv.Itoa(i)
		if s := n.element(i); s != nil {
			w.inside(key, s, e)
			seen.add(key)
		}
	}
	if n.Contains != nil {
		w.contains(n, v, seen)
	}
	if n.UniqueItems {
		w.unique(v)
	}
	for i, e := range v {
		if key := strconv.Itoa(i); n.UnevaluatedItems != nil && !seen[key] {
			w.inside(key, n.UnevaluatedItems, e)
			seen.add(key)
		}
	}
}

// element is the schema for an element of a list.
func (n *node) element(i int) *node {
	first, rest := n.PrefixItems, n.Items.all
	if n.Items.each != nil {
		first, rest = n.Items.each, n.AdditionalItems
	}
	if i < len(first) {
		return first[i]
	}
	return rest
}

func (w *walk) contains(n *node, v []any, seen evaluated) {
	fit := 0
	for i, e := range v {
		if len(w.try(n.Contains, e, nil)) == 0 {
			fit++
			seen.add(strconv.Itoa(i))
		}
	}
	few := fit == 0
	if n.MinContains != nil {
		few = n.MinContains.more(fit)
	}
	if few || n.MaxContains != nil && n.MaxContains.less(fit) {
		w.differs("it has too few or too many of the elements that are asked for")
	}
}

func (w *walk) unique(v []any) {
	first := map[string]int{}
	for i, e := range v {
		id := identity(e)
		if j, twice := first[id]; twice {
			w.differs("elements %d and %d are the same", j, i)
			return
		}
		first[id] = i
	}
}

func (w *walk) members(n *node, v map[string]any, seen evaluated) {
	w.within(n.MinProperties, n.MaxProperties, len(v), "keys")
	if missing := lacks(v, n.Required); len(missing) > 0 {
		w.differs("missing: %s", strings.Join(missing, ", "))
	}
	for _, table := range []map[string]dependency{n.Dependencies, n.DependentRequired, n.DependentSchemas} {
		w.dependent(table, v, seen)
	}
	for key, e := range v {
		if n.PropertyNames != nil && len(w.try(n.PropertyNames, key, nil)) > 0 {
			w.unknown(key, "it has not the form of a key here")
		}
		if w.member(n, key, e) {
			seen.add(key)
		}
		if n.UnevaluatedProperties != nil && !seen[key] {
			w.inside(key, n.UnevaluatedProperties, e)
			seen.add(key)
		}
	}
}

// dependent holds an object against what its keys ask of it.
func (w *walk) dependent(table map[string]dependency, v map[string]any, seen evaluated) {
	for key, d := range table {
		if _, has := v[key]; !has {
			continue
		}
		if missing := lacks(v, d.needs); len(missing) > 0 {
			w.differs("%s needs %s beside it", key, strings.Join(missing, ", "))
		}
		if d.schema != nil {
			w.check(d.schema, v, seen)
		}
	}
}

// member holds one value of an object against the schemas for its key, and reports whether there are any.
func (w *walk) member(n *node, key string, v any) (known bool) {
	if s := n.Properties[key]; s != nil {
		known = true
		w.inside(key, s, v)
	}
	for text, re := range n.patterns {
		if re.MatchString(key) {
			known = true
			w.inside(key, n.PatternProperties[text], v)
		}
	}
	switch {
	case known || n.AdditionalProperties == nil:
		return known
	case n.AdditionalProperties.never:
		w.unknown(key, "unknown key")
	default:
		w.inside(key, n.AdditionalProperties, v)
	}
	return true
}

// unknown notes that a key is not one of the schema's.
func (w *walk) unknown(key, problem string) {
	d := newDifference(append(w.path, key), problem)
	d.Unknown = true
	w.out = append(w.out, d)
}

// lacks are the keys that an object does not have.
func lacks(v map[string]any, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { _, has := v[key]; return has })
}

func (w *walk) within(least, most *number, n int, of string) {
	if least != nil && least.more(n) {
		w.differs("it has %d %s, want at least %s", n, of, least.text)
	}
	if most != nil && most.less(n) {
		w.differs("it has %d %s, want at most %s", n, of, most.text)
	}
}
