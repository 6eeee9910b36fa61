package config

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
)

// decoder moves a parsed file into a Config along the schema. It goes on after an error, so
// that it finds all of them, and keeps the default of a wrong value.
type decoder struct {
	file   string
	lines  *positions
	errs   Errors
	expand func(path string) (string, error) // makes a path absolute
	// unread holds the keys with wrong values. Errors that follow from the default in their place are not reported.
	unread map[string]bool
	// renamed holds a warning for each key that has the name of the last release.
	renamed []Error
}

// refuse reports a wrong value; the default stays.
func (d *decoder) refuse(at keyPath, problem, hint string) {
	d.report(at, problem, hint)
	d.unread[at.String()] = true
}

// report reports an error of a key, unless the key or a table around it was refused before.
func (d *decoder) report(at keyPath, problem, hint string) {
	for n := range len(at) {
		if d.unread[at[:n+1].String()] {
			return
		}
	}
	d.errs = append(d.errs, Error{File: d.file, Line: d.lines.line(at), Key: at.String(), Problem: problem, Hint: hint})
}

// table reads the keys of a table into a struct that holds the defaults.
func (d *decoder) table(at keyPath, raw map[string]any, into reflect.Value) {
	fields := fieldsOf(into.Type())
	known := keysOf(fields)
	for _, f := range fields {
		if _, old := raw[f.was]; old && f.was != "" {
			known = append(known, f.was)
		}
	}
	d.unknown(at, raw, known)
	for _, f := range fields {
		value, ok := raw[f.key]
		if before, old := raw[f.was]; old && f.was != "" {
			at := at.child(f.was)
			if ok {
				d.report(at, "it is now "+f.key+", which is set as well", "remove "+f.was)
			} else {
				d.renamed = append(d.renamed, Error{File: d.file, Line: d.lines.line(at), Key: at.String(),
					Problem: "it is now " + f.key + "; the next release drops the old name", Hint: "rename it"})
				value, ok = before, true
			}
		}
		if ok {
			var base reflect.Value
			if f.inherit != "" {
				base = sibling(into, fields, f.inherit)
			}
			d.value(at.child(f.key), value, into.Field(f.index), f, base)
		}
	}
}

// sibling is the field of a struct with the given key. Fields are read in order, so it must come first.
func sibling(v reflect.Value, fields []field, key string) reflect.Value {
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	return v.Field(fields[i].index)
}

func (d *decoder) unknown(at keyPath, raw map[string]any, known []string) {
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		switch env, file := slices.Contains(known, key+"_env"), slices.Contains(known, key+fileSuffix); {
		case slices.Contains(known, key):
		case env && file:
			d.report(at.child(key), openSecret, secretHint(key))
		case file && looksSecret(key, ""):
			d.report(at.child(key), openSecret, fmt.Sprintf("secrets never stand here: write %s%s with a path", key, fileSuffix))
		default:
			d.report(at.child(key), "unknown key", didYouMean(key, known))
		}
	}
}

// value reads one value of any kind. base holds the defaults for entries of a map; an invalid base means those of the schema.
func (d *decoder) value(at keyPath, raw any, into reflect.Value, f field, base reflect.Value) {
	switch target := into.Addr().Interface().(type) {
	case *Channel:
		d.channel(at, raw, target)
		return
	case *ToolProvider:
		d.toolProvider(at, raw, target)
		return
	case *Driver:
		d.driver(at, raw, target)
		return
	case *SandboxRef:
		d.sandboxRef(at, raw, target)
		return
	case encoding.TextUnmarshaler:
		if d.text(at, raw, target) {
			d.check(at, into, f)
		}
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		if table, ok := want[map[string]any](d, at, raw); ok {
			d.table(at, table, into)
		}
	case reflect.Map:
		d.entries(at, raw, into, f, base)
	case reflect.Slice:
		d.list(at, raw, into, f)
	default:
		d.scalar(at, raw, into, f)
	}
}

func (d *decoder) entries(at keyPath, raw any, into reflect.Value, f field, base reflect.Value) {
	table, ok := want[map[string]any](d, at, raw)
	if !ok {
		return
	}
	if len(f.keys) > 0 {
		d.unknown(at, table, f.keys)
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if len(f.keys) > 0 && !slices.Contains(f.keys, key) {
			continue
		}
		entry := reflect.New(into.Type().Elem()).Elem()
		switch {
		case base.IsValid():
			entry.Set(base)
		case entry.Kind() == reflect.Struct:
			entry.Set(defaults(entry.Type()))
		}
		d.value(at.child(key), table[key], entry, f, reflect.Value{})
		into.SetMapIndex(reflect.ValueOf(key), entry)
	}
}

func (d *decoder) list(at keyPath, raw any, into reflect.Value, f field) {
	elements, ok := elementsOf(raw)
	if !ok {
		wanted := "a list"
		if into.Type().Elem().Kind() == reflect.Struct {
			wanted = "a list of tables"
		}
		d.wrongType(at, wanted, raw)
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(elements), len(elements)))
	for i, element := range elements {
		target := into.Index(i)
		if target.Kind() == reflect.Struct {
			target.Set(defaults(target.Type()))
		}
		d.value(at.index(i), element, target, f, reflect.Value{})
	}
}

// elementsOf accepts both forms of a list that the parser makes.
func elementsOf(raw any) ([]any, bool) {
	switch raw := raw.(type) {
	case []any:
		return raw, true
	case []map[string]any:
		elements := make([]any, len(raw))
		for i, table := range raw {
			elements[i] = table
		}
		return elements, true
	}
	return nil, false
}

func (d *decoder) scalar(at keyPath, raw any, into reflect.Value, f field) {
	old := reflect.ValueOf(into.Interface())
	switch into.Kind() {
	case reflect.String:
		s, ok := want[string](d, at, raw)
		if !ok {
			return
		}
		into.SetString(s)
	case reflect.Bool:
		b, ok := want[bool](d, at, raw)
		if !ok {
			return
		}
		into.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, ok := want[int64](d, at, raw)
		if !ok {
			return
		}
		if into.OverflowInt(n) {
			d.refuse(at, fmt.Sprintf("%d is too large", n), "")
			return
		}
		into.SetInt(n)
	case reflect.Float64:
		if n, ok := raw.(int64); ok {
			raw = float64(n)
		}
		x, ok := want[float64](d, at, raw)
		if !ok {
			return
		}
		if math.IsInf(x, 0) || math.IsNaN(x) {
			d.refuse(at, "not a finite number", "")
			return
		}
		into.SetFloat(x)
	}
	if !d.check(at, into, f) {
		into.Set(old)
		return
	}
	if f.isPath {
		d.path(at, into)
	}
}

func (d *decoder) text(at keyPath, raw any, into encoding.TextUnmarshaler) bool {
	s, isString := raw.(string)
	err := into.UnmarshalText([]byte(s))
	if err == nil {
		return true
	}
	var bad unitError
	errors.As(err, &bad)
	if !isString {
		bad.problem = "must be a string, not " + describe(raw)
	}
	d.refuse(at, bad.problem, bad.hint)
	return false
}

func (d *decoder) check(at keyPath, v reflect.Value, f field) bool {
	problem, hint := f.checkValue(v)
	if problem != "" {
		d.refuse(at, problem, hint)
	}
	return problem == ""
}

func (d *decoder) path(at keyPath, into reflect.Value) {
	if into.String() == "" {
		return
	}
	path, err := d.expand(into.String())
	if err != nil {
		d.refuse(at, err.Error(), "write an absolute path")
		return
	}
	into.SetString(path)
}

func (d *decoder) sandboxRef(at keyPath, raw any, into *SandboxRef) {
	switch raw := raw.(type) {
	case bool:
		*into = SandboxRef{Enabled: raw}
	case string:
		if raw == "" {
			d.refuse(at, "empty name of a sandbox", "write true, false, or the name of a [sandboxes.NAME]")
			return
		}
		*into = SandboxRef{Enabled: true, Name: raw}
	default:
		d.wrongType(at, "true, false or a name", raw)
	}
}
