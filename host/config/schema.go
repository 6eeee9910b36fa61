package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// field is one key of the schema, read from the tags of a struct field.
type field struct {
	key      string
	index    int
	fallback string   // tag default
	low      string   // tag range
	high     string   //
	oneof    []string // tag oneof
	keys     []string // tag keys
	isPath   bool     // tag is
	secret   bool     // a path of a file that no sandbox may see: the key ends in _file, or tag is
	ref      string   // tag ref
	inherit  string   // tag inherit
	was      string   // tag was: the key's name in the last release
}

// schemas caches the results of readFields by reflect.Type.
var schemas sync.Map

// fieldsOf is the schema of a struct type, in the order of its fields. Callers must not change it.
func fieldsOf(t reflect.Type) []field {
	if fields, ok := schemas.Load(t); ok {
		return fields.([]field)
	}
	fields := readFields(t)
	schemas.Store(t, fields)
	return fields
}

func readFields(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key := strings.TrimSuffix(tag.Get("toml"), ",omitempty") // for Show
		if key == "" || key == "-" {
			continue
		}
		f := field{
			key:      key,
			index:    i,
			fallback: tag.Get("default"),
			oneof:    strings.Fields(tag.Get("oneof")),
			keys:     strings.Fields(tag.Get("keys")),
			isPath:   tag.Get("is") != "",
			secret:   tag.Get("is") == "secret" || tag.Get("is") == "path" && strings.HasSuffix(key, fileSuffix),
			ref:      tag.Get("ref"),
			inherit:  tag.Get("inherit"),
			was:      tag.Get("was"),
		}
		f.low, f.high, _ = strings.Cut(tag.Get("range"), "..")
		fields = append(fields, f)
	}
	return fields
}

func keysOf(fields []field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

// defaults returns a struct with its default values, nested structs included.
func defaults(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	for _, f := range fieldsOf(t) {
		at := v.Field(f.index)
		if at.Kind() == reflect.Struct && !isScalar(at) {
			at.Set(defaults(at.Type()))
		} else if f.fallback != "" {
			set(at, f.fallback)
		}
	}
	return v
}

// set writes a value given in a tag. It panics on a bad tag, which is a mistake in this package.
func set(v reflect.Value, text string) {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
		return
	}
	plain := strings.ReplaceAll(text, "_", "")
	var err error
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(plain, 10, 64)
		v.SetInt(n)
	case reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(plain, 64)
		v.SetFloat(f)
	default:
		err = fmt.Errorf("no default for a %s", v.Type())
	}
	if err != nil {
		panic(err)
	}
}

// isScalar reports whether a struct is written as one TOML value.
func isScalar(v reflect.Value) bool { return v.Type() == reflect.TypeFor[SandboxRef]() }

// checkValue checks a single value against the tags of its field.
func (f field) checkValue(v reflect.Value) (problem, hint string) {
	switch v.Kind() {
	case reflect.String:
		return f.checkWord(v.String())
	case reflect.Slice:
		for i := range v.Len() {
			if problem, hint = f.checkWord(v.Index(i).String()); problem != "" {
				return problem, hint
			}
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		return f.checkRange(v)
	}
	return "", ""
}

func (f field) checkWord(word string) (problem, hint string) {
	if len(f.oneof) == 0 || word == f.fallback || slices.Contains(f.oneof, word) {
		return "", ""
	}
	return fmt.Sprintf("no such value %q", word), didYouMean(word, f.oneof)
}

func (f field) checkRange(v reflect.Value) (problem, hint string) {
	if !f.outside(v) {
		return "", ""
	}
	problem = fmt.Sprintf("%v is out of range", v.Interface())
	switch {
	case f.high == "":
		return problem, "at least " + f.low
	case f.low == "":
		return problem, "at most " + f.high
	}
	return problem, "from " + f.low + " to " + f.high
}

func (f field) outside(v reflect.Value) bool {
	bound := reflect.New(v.Type()).Elem()
	if f.low != "" {
		if set(bound, f.low); less(v, bound) {
			return true
		}
	}
	if f.high != "" {
		if set(bound, f.high); less(bound, v) {
			return true
		}
	}
	return false
}

// less compares numbers; NaN is below all others, so that a range refuses it.
func less(a, b reflect.Value) bool {
	if a.Kind() == reflect.Float64 {
		return !(a.Float() >= b.Float())
	}
	return a.Int() < b.Int()
}

// list writes words for people: "a", "b".
func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, ", ")
}

// defaultsOf is defaults for a type known at compile time.
func defaultsOf[T any]() T { return defaults(reflect.TypeFor[T]()).Interface().(T) }

// oneofOf returns the values that the tags of a type allow for a key.
func oneofOf[T any](key string) []string {
	for _, f := range fieldsOf(reflect.TypeFor[T]()) {
		if f.key == key {
			return f.oneof
		}
	}
	return nil
}
