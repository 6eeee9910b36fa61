package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

const referenceFile = "../../examples/flynn.reference.toml"

// editorToken is that of the reference's client.
const editorToken = "0123456789abcdef0123456789abcdef"

// loadReference loads the reference beside an empty policy, which the example names.
func loadReference(t *testing.T) (*Config, map[string]any) {
	t.Helper()
	src, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "office-hours.wasm"), "", 0o600)
	cfg, err := Load(write(t, filepath.Join(dir, "flynn.toml"), string(src), 0o600), environ("HOME", dir, "EDITOR_TOKEN", editorToken))
	if err != nil {
		t.Fatal(err)
	}
	raw := map[string]any{}
	if _, err := toml.Decode(string(src), &raw); err != nil {
		t.Fatal(err)
	}
	return cfg, raw
}

// TestReferenceNamesEveryKey keeps the reference complete and its defaults true: each key of the schema
// stands in it or in a comment of it, and where the schema has a default, the first entry shows it.
func TestReferenceNamesEveryKey(t *testing.T) {
	_, raw := loadReference(t)
	src, _ := os.ReadFile(referenceFile)
	shown := defaultsOf[Config]()
	checkReference(t, string(src), raw, reflect.ValueOf(shown), "")
}

func checkReference(t *testing.T, src string, raw map[string]any, v reflect.Value, at string) {
	t.Helper()
	for _, f := range fieldsOf(v.Type()) {
		value, ok := raw[f.key]
		if !ok && strings.Contains(src, "\n# ["+at+f.key+"]\n") {
			checkReference(t, src, nil, v.Field(f.index), at+f.key+".")
			continue
		}
		if !ok {
			if !strings.Contains(src, "\n# "+f.key+" = ") {
				t.Errorf("the reference lacks %s%s", at, f.key)
			}
			continue
		}
		element := v.Field(f.index)
		switch t0 := element.Type(); {
		case t0.Kind() == reflect.Struct && !isScalar(element):
			checkReference(t, src, value.(map[string]any), element, at+f.key+".")
		case t0.Kind() == reflect.Map && t0.Elem().Kind() == reflect.Struct:
			entries := value.(map[string]any)
			for _, first := range []string{"main", "default", "irc"} {
				if entry, ok := entries[first]; ok {
					checkReference(t, src, entry.(map[string]any), defaults(t0.Elem()), at+f.key+"."+first+".")
				}
			}
		case t0.Kind() == reflect.Slice && t0.Elem().Kind() == reflect.Struct:
			checkReference(t, src, value.([]map[string]any)[0], defaults(t0.Elem()), at+f.key+"[0].")
		case f.fallback != "":
			written := reflect.New(t0).Elem()
			d := &decoder{lines: &positions{}, unread: map[string]bool{}}
			d.value(keyPath{f.key}, value, written, f, reflect.Value{})
			if !reflect.DeepEqual(written.Interface(), element.Interface()) {
				t.Errorf("%s%s = %v in the reference, but its default is %v", at, f.key, written, element)
			}
		}
	}
}

// TestSchemaTags finds tags that would panic or mean nothing.
func TestSchemaTags(t *testing.T) {
	known := []string{"toml", "default", "range", "oneof", "keys", "is", "ref", "inherit", "was"}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		defaults(typ)
		for i := range typ.NumField() {
			tag := string(typ.Field(i).Tag)
			for _, part := range strings.Fields(tag) {
				if name, _, ok := strings.Cut(part, `:"`); ok && !slices.Contains(known, name) {
					t.Errorf("%s.%s: unknown tag %s", typ, typ.Field(i).Name, name)
				}
			}
		}
		for _, f := range fieldsOf(typ) {
			v := defaults(typ).Field(f.index)
			if problem, hint := f.checkValue(v); problem != "" && f.fallback != "" {
				t.Errorf("%s.%s: default: %s (%s)", typ, f.key, problem, hint)
			}
			inner := v.Type()
			for inner.Kind() == reflect.Map || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				visit(inner)
			}
		}
	}
	visit(reflect.TypeFor[Config]())
}
