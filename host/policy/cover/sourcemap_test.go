package cover

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// twoBodies is a module of two functions: f has 4 bytes of code, g has 6. The content of its code section begins at byte 22.
var twoBodies = []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x03\x02\x00\x00" + "\x0a\x0d\x02" + "\x04\x00\x01\x01\x0b" + "\x06\x00\x01\x01\x01\x01\x0b")

// mapOf is a source map of two files with these segments.
func mapOf(t testing.TB, mappings string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"version": 3, "sources": []string{"policy.ts", "~lib/a.ts"}, "names": []string{}, "mappings": mappings, "sourcesContent": []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// encode is a segment.
func encode(numbers ...int) string {
	var b strings.Builder
	for _, n := range numbers {
		v := uint(n) << 1
		if n < 0 {
			v = uint(-n)<<1 | 1
		}
		for {
			d := v & 0x1f
			if v >>= 5; v > 0 {
				d |= 0x20
			}
			b.WriteByte(digits[d])
			if v == 0 {
				break
			}
		}
	}
	return b.String()
}

func TestSourceMap(t *testing.T) {
	const code = 21 // where the content of the code section begins
	for _, test := range []struct {
		name     string
		segments []string
		want     []row
	}{
		{"one segment ends with its function", []string{encode(code+4, 0, 6, 0)}, []row{at(4, 6, "policy.ts", 7)}},
		{"each to the next", []string{encode(code+3, 0, 6, 0), encode(1, 1, 0, 3), encode(1, -1, 2, 0)},
			[]row{at(3, 4, "policy.ts", 7), at(4, 5, "~lib/a.ts", 7), at(5, 6, "policy.ts", 9)}},
		{"code of no line", []string{encode(code+3, 0, 6, 0), encode(1), encode(1, 0, 1, 0)}, []row{at(3, 4, "policy.ts", 7), at(5, 6, "policy.ts", 8)}},
		{"both functions", []string{encode(code+3, 0, 6, 0), encode(6, 0, 10, 0, 0)}, []row{at(3, 6, "policy.ts", 7), at(9, 13, "policy.ts", 17)}},
		{"before and behind the code", []string{encode(0, 0, 0, 0), encode(900, 0, 0, 0)}, nil},
		{"none", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := ReadMapped(twoBodies, mapOf(t, strings.Join(test.segments, ",")))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(s.rows, test.want, func(a, b row) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
				t.Errorf("%+v, want %+v", s.rows, test.want)
			}
		})
	}
}

func TestBrokenSourceMap(t *testing.T) {
	for name, data := range map[string]string{
		"no JSON":              `{`,
		"an old revision":      `{"version":2,"sources":["a"],"mappings":"AAAA"}`,
		"a map of maps":        `{"version":3,"sections":[{}],"sources":["a"],"mappings":"AAAA"}`,
		"several lines":        `{"version":3,"sources":["a"],"mappings":"AAAA;AAAA"}`,
		"two numbers":          `{"version":3,"sources":["a"],"mappings":"AA"}`,
		"six numbers":          `{"version":3,"sources":["a"],"mappings":"AAAAAA"}`,
		"an empty segment":     `{"version":3,"sources":["a"],"mappings":"AAAA,,AAAA"}`,
		"no digit":             `{"version":3,"sources":["a"],"mappings":"AA-A"}`,
		"half a number":        `{"version":3,"sources":["a"],"mappings":"AAAg"}`,
		"a number without end": `{"version":3,"sources":["a"],"mappings":"gggggggggggggggA"}`,
		"backwards":            `{"version":3,"sources":["a"],"mappings":"KAAA,DAAA"}`,
		"no such source":       `{"version":3,"sources":["a"],"mappings":"ACAA"}`,
		"a line below 0":       `{"version":3,"sources":["a"],"mappings":"AADA"}`,
	} {
		s, err := ReadMapped(twoBodies, []byte(data))
		if !errors.Is(err, errMap) || s.HasLines() {
			t.Errorf("%s: %v, %+v", name, err, s)
		}
	}
}

func TestKeptSourceMap(t *testing.T) {
	kept, err := KeepMap(mapOf(t, encode(25, 0, 6, 0)), twoBodies)
	if err != nil || strings.Contains(string(kept), "sourcesContent") {
		t.Fatalf("%s: %v", kept, err)
	}
	if s, err := ReadMapped(twoBodies, kept); err != nil || !s.HasLines() {
		t.Errorf("%+v: %v", s, err)
	}
	other := slices.Clone(twoBodies)
	other[len(other)-3] = 0x00 // unreachable for nop
	if s, err := ReadMapped(other, kept); !errors.Is(err, errOther) || s.HasLines() {
		t.Errorf("%+v: %v", s, err)
	}
}

// FuzzSourceMap feeds any map of a module.
func FuzzSourceMap(f *testing.F) {
	f.Add([]byte(`{"version":3,"sources":["a.ts","b\n.ts"],"mappings":"yBAAA,CCAA,C,CDCAA"}`))
	f.Add(mapOf(f, encode(24, 0, 6, 0)+","+encode(6, 1, 10, 0, 0)))
	f.Add([]byte(`{"version":3,"sources":[],"mappings":"A"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadMapped(twoBodies, data)
		if err != nil && s.HasLines() {
			t.Fatalf("%+v: %v", s.rows, err)
		}
		end := 0
		for _, r := range s.rows {
			if r.start < end || r.end <= r.start || r.end > 13 || r.line < 1 || !printable(r.file) {
				t.Fatalf("%+v behind %d", r, end)
			}
			end = r.end
		}
	})
}
