package config

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config/meanings"
	"github.com/flynnhost/flynn/sdk/need"
)

// TestMeanings keeps meanings/keys.json like examples/flynn.reference.toml, and that with a meaning for every key.
func TestMeanings(t *testing.T) {
	src, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	found := meaningsIn(string(src))
	inherit(found, reflect.TypeFor[Config](), "", map[reflect.Type]bool{})
	text, err := json.MarshalIndent(found, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	need.Golden(t, "meanings/keys.json", string(text)+"\n")
	seen := map[reflect.Type]bool{}
	var visit func(t0 reflect.Type)
	visit = func(t0 reflect.Type) {
		if seen[t0] {
			return
		}
		seen[t0] = true
		for _, f := range fieldsOf(t0) {
			inner := t0.Field(f.index).Type
			for inner.Kind() == reflect.Map || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && !isScalar(reflect.New(inner).Elem()) {
				visit(inner)
				continue
			}
			if found[t0.Name()+"."+f.key].Text == "" {
				t.Errorf("the reference has no comment about %s of %s", f.key, t0.Name())
			}
		}
	}
	visit(reflect.TypeFor[Config]())
}

// inherit gives the keys of tables that the reference shows on one line the meaning of the key that holds them.
func inherit(found map[string]meanings.Meaning, t reflect.Type, text string, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	for _, f := range fieldsOf(t) {
		name, inner := t.Name()+"."+f.key, t.Field(f.index).Type
		list := false
		for inner.Kind() == reflect.Map || inner.Kind() == reflect.Slice {
			inner, list = inner.Elem(), true
		}
		m := found[name]
		if m.Text == "" && text != "" {
			m.Text = text
			found[name] = m
		}
		if inner.Kind() == reflect.Struct && !isScalar(reflect.New(inner).Elem()) {
			below := ""
			if list {
				below = m.Text
			}
			inherit(found, inner, below, seen)
		}
	}
}

var (
	keyOrComment = regexp.MustCompile(`^(?:# )?([a-z_0-9]+) = (.*)$`)
	headerLine   = regexp.MustCompile(`^(?:# )?\[(\[?)([^\]\s]+)\]\]?$`)
	inlineKey    = regexp.MustCompile(`([a-z_0-9]+) = `)
)

// meaningsIn reads the comments of a reference. A key without one has that of the key directly above it, and else that of its table.
func meaningsIn(src string) map[string]meanings.Meaning {
	out := map[string]meanings.Meaning{}
	table, about := reflect.TypeFor[Config](), ""
	var comment []string
	last := ""
	put := func(t reflect.Type, key string, m meanings.Meaning) {
		if t == nil {
			return
		}
		name := t.Name() + "." + key
		if old, ok := out[name]; !ok || old.Text == "" {
			out[name] = m
		}
	}
	for line := range strings.Lines(src) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			comment, last = nil, ""
			continue
		}
		if m := headerLine.FindStringSubmatch(line); m != nil {
			path := strings.Split(m[2], ".")
			table, about, comment, last = tableAt(path), strings.Join(comment, " "), nil, ""
			if above := tableAt(path[:len(path)-1]); about != "" && hasKey(above, path[len(path)-1]) { // a map
				put(above, path[len(path)-1], meanings.Meaning{Text: about})
			}
			if n := len(path) - 2; about != "" && n >= 0 && hasKey(tableAt(path[:n]), path[n]) { // a table with a name
				put(tableAt(path[:n]), path[n], meanings.Meaning{Text: about})
			}
			continue
		}
		m := keyOrComment.FindStringSubmatch(line)
		if m == nil || !hasKey(table, m[1]) {
			if strings.HasPrefix(line, "#") {
				comment = append(comment, strings.TrimSpace(strings.TrimPrefix(line, "#")))
			}
			continue
		}
		value, remark, _ := strings.Cut(m[2], " # ")
		text := strings.TrimSpace(strings.Join(comment, " ") + " " + remark)
		switch {
		case text != "":
			last = text
		case last != "":
			text = last
		default:
			text = about
		}
		comment = nil
		value = strings.TrimSpace(value)
		put(table, m[1], meanings.Meaning{Text: text, Example: value})
		if inner := tableAt2(table, m[1]); inner != nil && strings.Contains(value, "{") {
			for _, k := range inlineKey.FindAllStringSubmatch(value, -1) {
				if hasKey(inner, k[1]) {
					put(inner, k[1], meanings.Meaning{Text: text})
				}
			}
		}
	}
	return out
}

// tableAt is the type of the table with a header; nil if the schema has none.
func tableAt(path []string) reflect.Type {
	t := reflect.TypeFor[Config]()
	for i := 0; i < len(path); i++ {
		t = tableAt2(t, path[i])
		if t == nil {
			return nil
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
			i++
		}
		for t.Kind() == reflect.Slice {
			t = t.Elem()
		}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// tableAt2 is the type below a key of a table: of a table, of the elements of a list, or of a map.
func tableAt2(t reflect.Type, key string) reflect.Type {
	for _, f := range fieldsOf(t) {
		if f.key != key {
			continue
		}
		inner := t.Field(f.index).Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct || inner.Kind() == reflect.Map {
			return inner
		}
	}
	return nil
}

func hasKey(t reflect.Type, key string) bool {
	if t == nil || t.Kind() != reflect.Struct {
		return false
	}
	for _, f := range fieldsOf(t) {
		if f.key == key {
			return true
		}
	}
	return false
}
