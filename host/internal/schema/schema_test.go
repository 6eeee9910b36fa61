package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// doubling is a schema of n definitions, each of which applies the next one twice.
func doubling(n int, template string) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":`+template, i, i+1, i+1))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s,"d%d":{"type":"object"}}}`, strings.Join(defs, ","), n)
}

func TestHostileSchemas(t *testing.T) {
	twice := `{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`
	for name, c := range map[string]struct {
		text                string
		settings, arguments string // part of the error; "" takes it
	}{
		"plain":         {text: `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"an older kind": {text: `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{}},"$ref":"#/definitions/a"}`},
		"no JSON":       {text: `manifest = 1`, settings: "read the schema", arguments: "read the schema"},
		"no schema":     {text: `{"type":5}`, settings: "type", arguments: "type"},
		"a list":        {text: `[]`, settings: "not valid against metaschema", arguments: "not valid against metaschema"},
		"two":           {text: `{}{}`, settings: "something follows", arguments: "something follows"},
		"twice a key":   {text: `{"type":"object","type":"string"}`, settings: `"type" is there twice`, arguments: `"type" is there twice`},
		"no UTF-8":      {text: "{\"title\":\"\xff\"}", settings: "UTF-8", arguments: "UTF-8"},
		"long":          {text: `{"title":"` + strings.Repeat("x", MaxBytes) + `"}`, settings: "at most 65536", arguments: "at most 65536"},
		"deep": {
			text:     strings.Repeat(`{"not":`, maxDepth+1) + `{}` + strings.Repeat(`}`, maxDepth+1),
			settings: "nested more than 64", arguments: "nested more than 64",
		},
		"a file":        {text: `{"$ref":"file:///etc/passwd"}`, settings: "must stand alone", arguments: "must stand alone"},
		"a server":      {text: `{"$ref":"http://127.0.0.1:1/x"}`, settings: "must stand alone", arguments: "must stand alone"},
		"a kind":        {text: `{"$schema":"http://127.0.0.1:1/x"}`, settings: "must stand alone", arguments: "must stand alone"},
		"a path":        {text: `{"$ref":"other.json"}`, settings: "must stand alone", arguments: "must stand alone"},
		"a huge number": {text: `{"minimum":1e999999999}`, settings: "too large", arguments: "too large"},
		"a tiny number": {text: `{"multipleOf":1e-999999999}`, settings: "too exact", arguments: "too exact"},
		"a long number": {text: `{"maximum":` + strings.Repeat("9", 200) + `}`, settings: "too large", arguments: "too large"},
		"a long pattern": {
			text: `{"pattern":"` + strings.Repeat("a", maxPattern+1) + `"}`, settings: "at most 512", arguments: "at most 512",
		},
		"a pattern of another language": {text: `{"pattern":"(?=a)"}`, settings: "regular expression", arguments: "regular expression"},
		"many patterns": {
			text:     `{"allOf":[` + strings.Repeat(`{"pattern":"a"},`, maxPatterns) + `{}]}`,
			settings: "more than 200 regular expressions", arguments: "more than 200 regular expressions",
		},
		"a circle":       {text: `{"$ref":"#"}`, settings: "without an end", arguments: "without an end"},
		"a wider circle": {text: `{"anyOf":[{"not":{"$ref":"#"}}]}`, settings: "without an end", arguments: "without an end"},
		"a tree":         {text: `{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`, settings: "without an end"},
		"work at once":   {text: doubling(40, twice), settings: "unfolds to more", arguments: "unfolds to more"},
		"work in depth": {
			text: doubling(40, `{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`), settings: "unfolds to more",
		},
		"work in a part": {
			text:     `{"properties":{"a":` + doubling(1, twice) + `,"b":{"$ref":"#/$defs/d0"}},"$defs":` + defsOf(doubling(40, twice)) + `}`,
			settings: "unfolds to more", arguments: "unfolds to more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for use, want := range map[Use]string{Settings: c.settings, Arguments: c.arguments} {
				_, err := Compile([]byte(c.text), use)
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("use %d: %v, want %q", use, err, want)
				}
			}
		})
	}
}

// defsOf is the $defs of a schema.
func defsOf(schema string) string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(schema), &all); err != nil {
		panic(err)
	}
	return string(all["$defs"])
}

const everyKind = `{
	"type":"object","required":["home"],"additionalProperties":false,
	"dependentRequired":{"user":["nick"]},
	"properties":{
		"home":{"type":"string","pattern":"^https://","maxLength":40},
		"nick":{"type":"string","minLength":2},
		"user":{"type":"string"},
		"mode":{"enum":["poll","push"]},
		"one":{"const":1},
		"size":{"type":"integer","minimum":1,"maximum":10},
		"share":{"exclusiveMinimum":0,"exclusiveMaximum":1},
		"step":{"multipleOf":5},
		"rooms":{"type":"array","minItems":1,"maxItems":3,"uniqueItems":true,"items":{"type":"string"}},
		"either":{"oneOf":[{"type":"string"},{"type":"integer"}]},
		"never":false,
		"tags":{"type":"array","contains":{"type":"string"}},
		"table":{"type":"object","additionalProperties":false,"minProperties":1,"maxProperties":2,"properties":{"deep":{"type":"boolean"}}},
		"named":{"type":"object","propertyNames":{"pattern":"^[a-z]+$"}},
		"deep":{"type":"array","items":{"properties":{"in":{"propertyNames":{"pattern":"^[a-z]+$"}}}}}
	}}`

func TestDifferences(t *testing.T) {
	s, err := Compile([]byte(everyKind), Settings)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "s3cr3t"
	for name, c := range map[string]struct{ value, want string }{
		"nothing":          {`{"home":"https://a"}`, ""},
		"missing":          {`{}`, ": missing: home"},
		"unknown":          {`{"home":"https://a","hoem":"` + secret + `"}`, "hoem: unknown key"},
		"unknown inside":   {`{"home":"https://a","table":{"deep":true,"x":1}}`, "table/x: unknown key"},
		"type":             {`{"home":5}`, "home: must be string, not number"},
		"pattern":          {`{"home":"` + secret + `"}`, "home: must match ^https://"},
		"short":            {`{"home":"https://a","nick":"x"}`, "nick: must have at least 2 characters, not 1"},
		"long":             {`{"home":"https://` + strings.Repeat(secret, 10) + `"}`, "home: must have at most 40 characters, not 68"},
		"enum":             {`{"home":"https://a","mode":"` + secret + `"}`, `mode: must be "poll" or "push"`},
		"const":            {`{"home":"https://a","one":2}`, `one: must be "1"`},
		"minimum":          {`{"home":"https://a","size":0}`, "size: must be at least 1"},
		"maximum":          {`{"home":"https://a","size":11}`, "size: must be at most 10"},
		"exclusive":        {`{"home":"https://a","share":0}`, "share: must be more than 0"},
		"exclusive above":  {`{"home":"https://a","share":1}`, "share: must be less than 1"},
		"multiple":         {`{"home":"https://a","step":7}`, "step: must be a multiple of 5"},
		"element":          {`{"home":"https://a","rooms":["a",5]}`, "rooms/1: must be string, not number"},
		"few":              {`{"home":"https://a","rooms":[]}`, "rooms: must have at least 1 elements, not 0"},
		"many":             {`{"home":"https://a","rooms":["a","b","c","d"]}`, "rooms: must have at most 3 elements, not 4"},
		"same":             {`{"home":"https://a","rooms":["` + secret + `","` + secret + `"]}`, "rooms: elements 0 and 1 are the same"},
		"alternatives":     {`{"home":"https://a","either":true}`, "either: it matches none of the allowed forms, or more than one"},
		"never":            {`{"home":"https://a","never":"` + secret + `"}`, "never: it is not allowed here"},
		"contains":         {`{"home":"https://a","tags":[1]}`, "tags: it has too few or too many elements of the required form"},
		"empty":            {`{"home":"https://a","table":{}}`, "table: must have at least 1 keys, not 0"},
		"dependent":        {`{"home":"https://a","user":"u"}`, ": user needs nick beside it"},
		"form of a key":    {`{"home":"https://a","named":{"A":1}}`, "named/A: a key of this form is not allowed here"},
		"form, but where":  {`{"home":"https://a","deep":[{"in":{"A":1}},{"in":{"a":1,"A":2}}]}`, `deep: a key "A" below has a form that is not allowed there`},
		"several, ordered": {`{"size":0,"mode":"x"}`, ": missing: home\nmode: must be \"poll\" or \"push\"\nsize: must be at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, d := range s.Differences(decode(t, c.value)) {
				lines = append(lines, strings.Join(d.Path, "/")+": "+d.Problem)
			}
			got := strings.Join(lines, "\n")
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if strings.Contains(got, secret) {
				t.Errorf("%q quotes the value", got)
			}
		})
	}
}

func TestDifferencesAreBounded(t *testing.T) {
	s, err := Compile([]byte(`{"additionalProperties":{"enum":["`+strings.Repeat("ä", 1000)+`"]}}`), Settings)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprintf(`"k%d":1`, i))
	}
	all := s.Differences(decode(t, "{"+strings.Join(keys, ",")+"}"))
	if len(all) != maxDifferences {
		t.Errorf("%d differences, want %d", len(all), maxDifferences)
	}
	if n := len(all[0].Problem); n > maxProblem+3 {
		t.Errorf("a problem of %d bytes", n)
	}
}

func TestKeys(t *testing.T) {
	s, err := Compile([]byte(`{"properties":{"b":{"properties":{"c":{}}},"a":{}}}`), Settings)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Keys(), s.Keys("b"), s.Keys("x", "y")); got != "[a b] [c] []" {
		t.Errorf("keys %s", got)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// No schema, whatever it holds, makes the host panic or work without an end, and what is told stays bounded.
func FuzzHostileSchema(f *testing.F) {
	f.Add([]byte(everyKind), []byte(`{"home":"https://a","rooms":["a",5],"x":{}}`))
	f.Add([]byte(doubling(20, `{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`)), []byte(`{}`))
	f.Add([]byte(`{"properties":{"a":{"$dynamicRef":"#x"}},"$dynamicAnchor":"x"}`), []byte(`{"a":{"a":{}}}`))
	f.Add([]byte(`{"$id":"http://a/b","$defs":{"c":{"$id":"d","items":[{"$ref":"#"}]}},"unevaluatedProperties":{"$ref":"d"}}`), []byte(`{"x":[1]}`))
	f.Add([]byte(`{"patternProperties":{"^(a+)+$":{"format":"regex"}},"propertyNames":{"contentMediaType":"application/json"}}`), []byte(`{"aa":"("}`))
	f.Add([]byte(`{"minimum":1e400,"enum":[1e-400,null,[{}]],"const":-0}`), []byte(`0`))
	f.Fuzz(func(t *testing.T, text, raw []byte) {
		for _, use := range []Use{Settings, Arguments} {
			s, err := Compile(text, use)
			if err != nil {
				continue
			}
			d := json.NewDecoder(strings.NewReader(string(raw)))
			d.UseNumber()
			var v any
			if d.Decode(&v) != nil || strict(raw) != nil {
				return
			}
			for _, one := range s.Differences(v) {
				if one.Problem == "" || len(one.Problem) > maxProblem+3 {
					t.Fatalf("%+v of %q", one, text)
				}
			}
		}
	})
}
