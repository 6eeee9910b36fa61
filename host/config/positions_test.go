package config

import (
	"maps"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

func TestLocate(t *testing.T) {
	tests := map[string]struct {
		src  string
		want map[string]int
	}{
		"pairs":          {"a = 1\n\nb = 2", map[string]int{"a": 1, "b": 3}},
		"comments":       {"# a = 1\nb = 2 # c = 3\n#\nd = 4", map[string]int{"b": 2, "d": 4}},
		"hash in string": {"a = '#'\nb = \"# \\\" #\"\nc = 1", map[string]int{"a": 1, "b": 2, "c": 3}},
		"table":          {"[a]\nb = 1\n[ a . c ]\nd = 2", map[string]int{"a": 1, "a.b": 2, "a.c": 3, "a.c.d": 4}},
		"dotted":         {"a.b . c = 1\na.d = 2", map[string]int{"a": 1, "a.b": 1, "a.b.c": 1, "a.d": 2}},
		"quoted":         {"\"a.b\" = 1\n'c d'.\"\\u0065\" = 2\n\"\" = 3", map[string]int{`"a.b"`: 1, `"c d"`: 2, `"c d".e`: 2, `""`: 3}},
		"list": {"a = [\n 1, # one\n [2,\n 3]\n]\nb = 4", map[string]int{
			"a": 1, "a[0]": 2, "a[1]": 3, "a[1][0]": 3, "a[1][1]": 4, "b": 6}},
		"inline": {"a = { b = 1, \"c\" = { d = [] } }\ne = 1", map[string]int{"a": 1, "a.b": 1, "a.c": 1, "a.c.d": 1, "e": 2}},
		"list of tables": {"[[a]]\nb = 1\n[a.c]\nd = 1\n[[a]]\nb = 2\n[[a.e]]\n[[a.e]]\nf = 3", map[string]int{
			"a": 1, "a[0]": 1, "a[0].b": 2, "a[0].c": 3, "a[0].c.d": 4, "a[1]": 5, "a[1].b": 6,
			"a[1].e": 7, "a[1].e[0]": 7, "a[1].e[1]": 8, "a[1].e[1].f": 9}},
		"long strings": {"a = \"\"\"\nb = 1\n\\\"\"\" \"\"\"\"\"\nc = '''\nd = 2\n\\'''\ne = 3", map[string]int{"a": 1, "c": 4, "e": 7}},
		"windows":      {"a = 1\r\nb = 2\r\n", map[string]int{"a": 1, "b": 2}},
		"mark":         {"\ufeffa = 1", map[string]int{"a": 1}},
		"dates":        {"a = 2026-01-02 03:04:05\nb = 1", map[string]int{"a": 1, "b": 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var any map[string]any
			if _, err := toml.Decode(test.src, &any); err != nil {
				t.Fatalf("the test is not TOML: %v", err)
			}
			got := map[string]int{}
			for key, at := range locate(test.src).keys {
				got[key] = at.line
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("located %v, want %v", got, test.want)
			}
		})
	}
}

func TestLineOfMissingKeyIsThatOfItsTable(t *testing.T) {
	p := locate("[a.b]\nc = 1")
	for _, path := range []keyPath{{"a", "b"}, {"a", "b", "none"}, {"a", "none"}} {
		if got := p.line(path); got != 1 {
			t.Errorf("%s is in line %d, want 1", path, got)
		}
	}
	if got := p.line(keyPath{"x"}); got != 0 {
		t.Errorf("x is in line %d, want 0", got)
	}
}

// paths lists every key of a parsed file.
func paths(at keyPath, raw any) []string {
	var found []string
	if table, ok := raw.(map[string]any); ok {
		for key, value := range table {
			found = append(found, at.child(key).String())
			found = append(found, paths(at.child(key), value)...)
		}
		return found
	}
	elements, _ := elementsOf(raw)
	for i, element := range elements {
		found = append(found, at.index(i).String())
		found = append(found, paths(at.index(i), element)...)
	}
	return found
}

// FuzzLocate compares the locator with the parser: whatever the one accepts, the other finds every key of, and no other.
func FuzzLocate(f *testing.F) {
	for _, src := range []string{
		minimal, "a.b.c = [1, {d = '''x'''}]", "[[a]]\n[[a.b]]\n[a.b.c]\n", "\"\\u00e9\" = \"\"\"\"\"\"\nx = 1e3", "a=[[],[[1]]]#",
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		p := locate(src) // must end whatever it reads
		raw := map[string]any{}
		if !utf8.ValidString(src) {
			return // refused before
		}
		if _, err := toml.Decode(src, &raw); err != nil {
			return
		}
		want := paths(nil, raw)
		slices.Sort(want)
		want = slices.Compact(want)
		got := slices.Sorted(maps.Keys(p.keys))
		if !slices.Equal(got, want) {
			t.Errorf("located %q, the parser has %q, in %q", got, want, src)
		}
	})
}
