package config

import (
	"encoding"
	"reflect"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config/meanings"
)

// The types of keys.
const (
	TypeText    = "text"
	TypeBoolean = "boolean"
	TypeInteger = "integer"
	TypeNumber  = "number"
	TypeList    = "list"   // of texts
	TypeMap     = "map"    // of texts by names that the owner chooses
	TypeNamed   = "named"  // tables by names that the owner chooses
	TypeTables  = "tables" // a list of tables
	TypeSandbox = "sandbox"
	TypeOther   = "other" // of a plugin's own key that is neither of them
)

// Key is one key that flynn.toml may have, with what the file says.
type Key struct {
	// Path has the segments of the key; an element of a list of tables is "[0]".
	Path []string
	Type string
	// Form is how a text is written if it is not free: size, duration, percent, cpus or path.
	Form    string
	Default string
	OneOf   []string
	// Names are the only names that a map or a table of tables may have.
	Names     []string
	Low, High string
	Meaning   string
	Example   string
	// Reference is true for a key that says where a secret is: it is a path or the name of a variable.
	Reference bool
	// Plugin is true for a key that belongs to the plugin of a channel or tool provider.
	Plugin bool
	// Set reports whether the file has the key; Value is what it says, and Line where. Value is empty if Hidden.
	Set    bool
	Value  any
	Hidden bool
	Line   int
	// New is true for a key of an element that a list of tables may have besides those that it has.
	New bool
}

// Keys returns every key that a text of flynn.toml has or may have, in the order of the schema. Tables whose names the owner chooses have
// their keys for each name of the text. A text that is not TOML has the keys, and no values.
func Keys(path string, text []byte) []Key {
	doc := readDocument(path, string(text))
	k := &keyLister{lines: doc.lines}
	k.table(nil, doc.keys, reflect.TypeFor[Config]())
	return k.keys
}

// maxKeys bounds the keys of a text, which may have many names.
const maxKeys = 20_000

type keyLister struct {
	lines *positions
	keys  []Key
	fresh bool // in an element that is not there
}

func (k *keyLister) table(at keyPath, raw map[string]any, t reflect.Type) {
	for _, f := range fieldsOf(t) {
		value, set := raw[f.key]
		if old, was := raw[f.was]; f.was != "" && was && !set {
			value, set = old, true
		}
		k.key(at.child(f.key), f, t, value, set)
	}
	if t == reflect.TypeFor[Channel]() || t == reflect.TypeFor[ToolProvider]() || t == reflect.TypeFor[Driver]() {
		k.plugin(at, raw, keysOf(fieldsOf(t)))
	}
}

// key lists a key with all that is below it.
func (k *keyLister) key(at keyPath, f field, table reflect.Type, value any, set bool) {
	t := table.Field(f.index).Type
	if t.Kind() == reflect.Struct && !isScalar(reflect.New(t).Elem()) {
		below, _ := value.(map[string]any)
		k.table(at, below, t)
		return
	}
	m := meanings.Of(table.Name(), f.key)
	key := Key{
		Path: at, Default: f.fallback, OneOf: f.oneof, Names: f.keys, Low: f.low, High: f.high, Meaning: m.Text, Example: m.Example,
		Reference: secretStem(f.key) != "" || f.secret,
	}
	key.Type, key.Form = typeOf(t, f)
	switch key.Type {
	case TypeNamed:
		names, _ := value.(map[string]any)
		k.add(key, sorted(names), set)
		for _, name := range sorted(names) {
			below, _ := names[name].(map[string]any)
			k.table(at.child(name), below, t.Elem())
		}
	case TypeTables:
		elements, _ := elementsOf(value)
		k.add(key, len(elements), set)
		for i, e := range elements {
			below, _ := e.(map[string]any)
			k.table(at.index(i), below, t.Elem())
		}
		if !k.fresh {
			k.fresh = true
			k.table(at.index(len(elements)), nil, t.Elem())
			k.fresh = false
		}
	default:
		k.add(key, value, set)
	}
}

// plugin lists the keys of a plugin, which no schema here knows.
func (k *keyLister) plugin(at keyPath, raw map[string]any, ours []string) {
	for _, name := range sorted(raw) {
		if slices.Contains(ours, name) {
			continue
		}
		key := Key{Path: at.child(name), Plugin: true, Reference: secretStem(name) != "", Type: TypeOther}
		switch raw[name].(type) {
		case string:
			key.Type = TypeText
		case bool:
			key.Type = TypeBoolean
		case int64:
			key.Type = TypeInteger
		case float64:
			key.Type = TypeNumber
		}
		k.add(key, raw[name], true)
	}
}

func (k *keyLister) add(key Key, value any, set bool) {
	if len(k.keys) == maxKeys {
		return
	}
	key.New = k.fresh
	if key.Set = set; set {
		key.Value, key.Hidden = withoutSecrets(keyPath(key.Path).last(), value)
		key.Line = k.lines.line(key.Path)
	}
	k.keys = append(k.keys, key)
}

// Shown returns settings of a plugin without what looks like a secret.
func Shown(settings map[string]any) map[string]any {
	out, _ := withoutSecrets("", settings)
	return out.(map[string]any)
}

// withoutSecrets is a value in which nothing that looks like a secret is left.
func withoutSecrets(key string, value any) (shown any, hidden bool) {
	switch value := value.(type) {
	case string:
		if looksSecret(key, value) {
			return nil, true
		}
		return hideLogins(value), false
	case map[string]any:
		out := map[string]any{}
		for name, v := range value {
			if v, hidden := withoutSecrets(name, v); hidden {
				out[name] = hiddenMark("")
			} else {
				out[name] = v
			}
		}
		return out, false
	}
	if elements, ok := elementsOf(value); ok {
		out := make([]any, len(elements))
		for i, e := range elements {
			out[i], _ = withoutSecrets("", e)
		}
		return out, false
	}
	return value, false
}

func typeOf(t reflect.Type, f field) (kind, form string) {
	if f.isPath {
		form = "path"
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return TypeText, strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.Bool:
		return TypeBoolean, form
	case reflect.Int, reflect.Int64:
		return TypeInteger, form
	case reflect.Float64:
		return TypeNumber, form
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return TypeTables, ""
		}
		return TypeList, form
	case reflect.Map:
		if t.Elem().Kind() == reflect.Struct && !isScalar(reflect.New(t.Elem()).Elem()) {
			return TypeNamed, ""
		}
		return TypeMap, form
	case reflect.Struct:
		return TypeSandbox, ""
	}
	return TypeText, form
}
