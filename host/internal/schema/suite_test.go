package schema

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// beyond reports whether a schema of the suite asks for what the package does not do: fetching schemas, holding a value against the schema of
// schemas, or following a dynamic reference out of its resource.
func beyond(file, schema string) bool {
	return file == "refRemote.json" || file == "dynamicRef.json" || strings.Contains(schema, `"$dynamicRef"`) ||
		strings.Contains(schema, `"$ref": "http://json-schema.org/`) || strings.Contains(schema, `"$ref": "https://json-schema.org/`)
}

// TestSuite holds the package against the official suite of JSON Schema, which comes with a library that the project has anyway.
func TestSuite(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skip("the module with the suite is not here")
	}
	for draft, kind := range map[string]string{
		"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
	} {
		files, err := filepath.Glob(filepath.Join(dir, "jsonschema", "testdata", draft, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests for %s: %v", draft, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var groups []group
			if err := json.Unmarshal(text, &groups); err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				if name := filepath.Base(file); !beyond(name, string(g.Schema)) {
					t.Run(draft+"/"+name+"/"+g.Description, func(t *testing.T) { g.run(t, kind) })
				}
			}
		}
	}
}

// group is a schema of the suite, with values that fit or do not.
type group struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func (g group) run(t *testing.T, kind string) {
	text := string(g.Schema)
	var object map[string]json.RawMessage
	if json.Unmarshal(g.Schema, &object) == nil && object["$schema"] == nil {
		object["$schema"] = json.RawMessage(`"` + kind + `"`)
		with, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		text = string(with)
	}
	s, err := Compile([]byte(text), Arguments)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, c := range g.Tests {
		if got := s.Differences(decode(t, string(c.Data))); (len(got) == 0) != c.Valid {
			t.Errorf("%s: %s of %s: %+v, want valid %t", c.Description, c.Data, text, got, c.Valid)
		}
	}
}
