package jsonform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	for _, c := range []struct {
		name, in, want string // want "" is an error
	}{
		{"empty", "", "{}"},
		{"only space", " \n\t", "{}"},
		{"empty object", "{ }", "{}"},
		{"keys sorted, space gone", "{ \"b\" : 1 ,\n \"a\" : [ true , null ] }", `{"a":[true,null],"b":1}`},
		{"keys nested", `{"z":{"b":1,"a":2},"a":[{"d":1,"c":2}]}`, `{"a":[{"c":2,"d":1}],"z":{"a":2,"b":1}}`},
		{"keys in UTF-16 order", `{"\ufb33":1,"😂":2,"ö":3,"1":4,"\r":5,"€":6,"\u0080":7}`, "{\"\\r\":5,\"1\":4,\"\u0080\":7,\"ö\":3,\"€\":6,\"😂\":2,\"\ufb33\":1}"},
		{"escapes", `{"a":"\u0041\/\u001f\u007f\b\t\n\f\r\"\\\u2028<>&"}`, "{\"a\":\"A/\\u001f\x7f\\b\\t\\n\\f\\r\\\"\\\\\u2028<>&\"}"},
		{"surrogate pair", `{"a":"\ud83d\ude02"}`, `{"a":"😂"}`},
		{"integer keeps its digits", `{"a":12345678901234567890123}`, `{"a":12345678901234567890123}`},
		{"minus zero", `{"a":-0,"b":-0.0,"c":-0e5}`, `{"a":0,"b":0,"c":0}`},
		{"decimals", `{"a":1.10,"b":4.50,"c":2e-3,"d":0.000001,"e":0.0000001}`, `{"a":1.1,"b":4.5,"c":0.002,"d":0.000001,"e":1e-7}`},
		{"exponents", `{"a":1e3,"b":1E+20,"c":1e21,"d":1E30,"e":-1.5e-300}`, `{"a":1000,"b":100000000000000000000,"c":1e+21,"d":1e+30,"e":-1.5e-300}`},
		{"RFC 8785 sample numbers", `{"n":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]}`, `{"n":[333333333.3333333,1e+30,4.5,0.002,1e-27]}`},
		{"underflow", `{"a":1e-999}`, `{"a":0}`},
		{"as deep as may be", deep(maxDepth), deep(maxDepth)},

		{"too deep", deep(maxDepth + 1), ""},
		{"very deep", deep(9000), ""},
		{"key twice", `{"a":1,"a":1}`, ""},
		{"key twice by escape", `{"a":1,"\u0061":2}`, ""},
		{"key twice inside", `{"x":[{"a":1,"a":2}]}`, ""},
		{"array", `[1]`, ""},
		{"null", `null`, ""},
		{"string", `"{}"`, ""},
		{"two values", `{} {}`, ""},
		{"rubbish behind", `{}x`, ""},
		{"cut off", `{"a":`, ""},
		{"trailing comma", `{"a":1,}`, ""},
		{"missing comma", `{"a":[1 2]}`, ""},
		{"comment", `{/**/}`, ""},
		{"not UTF-8", "{\"a\":\"\xff\"}", ""},
		{"byte order mark", "\ufeff{}", ""},
		{"number too big", `{"a":1e999}`, ""},
		{"integer too long", `{"a":` + strings.Repeat("9", maxDigits+1) + `}`, ""},
		{"not a number", `{"a":NaN}`, ""},
		{"too long", `{"a":"` + strings.Repeat("x", MaxArgs) + `"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, value, err := Canonical(json.RawMessage(c.in))
			if (err == nil) != (c.want != "") {
				t.Fatalf("got %s, error %v; want %q", got, err, c.want)
			}
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if err == nil && value == nil {
				t.Error("no value comes with it")
			}
		})
	}
}

// plain decodes JSON with numbers as float64, to compare meanings.
func plain(t interface{ Fatalf(string, ...any) }, raw []byte) any {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
	return v
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"b":[1,2.5e3,"x\u0000y"],"a":{"c":null}}`, `{"a":1,"a":2}`, `{"a":-0.0}`, `{"a":"\ud800"}`, `{"\u20ac":1e-7}`, `[`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, _, err := Canonical(raw)
		if err != nil {
			return
		}
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("%q gives %q, which is not JSON", raw, got)
		}
		again, _, err := Canonical(got)
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("%q gives %q, which gives %q, error %v", raw, got, again, err)
		}
		if len(bytes.TrimSpace(raw)) > 0 && !reflect.DeepEqual(plain(t, raw), plain(t, got)) {
			t.Fatalf("%q gives %q, which means something else", raw, got)
		}
	})
}

// jsonObject draws an object with distinct keys.
func jsonObject() *rapid.Generator[map[string]any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		rapid.Map(rapid.Int64Range(-1<<53, 1<<53), func(n int64) any { return float64(n) }),
	)
	array := rapid.Map(rapid.SliceOfN(leaf, 0, 4), func(a []any) any { return a })
	inner := rapid.Map(rapid.MapOfN(rapid.String(), leaf, 0, 4), func(m map[string]any) any { return m })
	return rapid.MapOfN(rapid.String(), rapid.OneOf(leaf, array, inner), 0, 5)
}

// TestCanonicalIgnoresSpelling checks that two spellings of one value have one form.
func TestCanonicalIgnoresSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := jsonObject().Draw(t, "object")
		compact, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		indented, err := json.MarshalIndent(object, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		a, _, errA := Canonical(compact)
		b, _, errB := Canonical(asciiOnly(indented))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s and %s of one value; errors %v, %v", a, b, errA, errB)
		}
	})
}

// asciiOnly escapes every rune beyond ASCII; they stand only in strings.
func asciiOnly(raw []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.Bytes()
}
