package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/jsonform"
)

const hardSchema = `{"type":"object","required":["command"],"additionalProperties":false,"properties":{
	"command":{"type":"string","minLength":1,"maxLength":10,"pattern":"^[a-z ]+$"},
	"count":{"type":"integer","minimum":0,"maximum":9,"multipleOf":3},
	"list":{"type":"array","uniqueItems":true,"items":{"anyOf":[{"type":"string"},{"$ref":"#/properties/count"}]}}}}`

func TestSchemaComplaints(t *testing.T) {
	schema, err := compileSchema(json.RawMessage(hardSchema))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args string
		want       []string // parts of the complaint; none fits the schema
	}{
		{"fits", `{"command":"ls"}`, nil},
		{"fits with all", `{"command":"ls","count":3,"list":["a",6]}`, nil},
		{"integer written as a float", `{"command":"ls","count":3.0}`, nil},
		{"missing", `{}`, []string{"arguments", "command"}},
		{"unknown key", `{"command":"ls","x":1}`, []string{"x"}},
		{"wrong type", `{"command":5}`, []string{"command: ", "string"}},
		{"pattern", `{"command":"ls; rm"}`, []string{"command: ", "pattern"}},
		{"huge integer", `{"command":"ls","count":99999999999999999999}`, []string{"count: "}},
		{"inner", `{"command":"ls","list":["a",{}]}`, []string{"list/1: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, value, err := jsonform.Canonical(json.RawMessage(c.args))
			if err != nil {
				t.Fatal(err)
			}
			err = checkSchema(schema, value)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("complaint %v, want %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("complaint %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestSchemaComplaintIsBounded(t *testing.T) {
	schema, err := compileSchema(json.RawMessage(hardSchema))
	if err != nil {
		t.Fatal(err)
	}
	_, value, err := jsonform.Canonical(json.RawMessage(`{"command":"ls","list":[` + strings.Repeat("{},", 20000) + `{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err = checkSchema(schema, value); err == nil || len(err.Error()) > maxComplaint {
		t.Errorf("complaint of %d bytes", len(err.Error()))
	}
}

func FuzzHostileArguments(f *testing.F) {
	schema, err := compileSchema(json.RawMessage(hardSchema))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"command":"ls"}`, `{"command":1e308,"list":[[],{},null,"a","a"]}`, `{"count":-9999999999999999999999}`, `{"a/b~c":{"":{"~1":[]}}}`, `{"count":0.1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, value, err := jsonform.Canonical(raw)
		if err != nil {
			return
		}
		if err := checkSchema(schema, value); err != nil && (err.Error() == "" || len(err.Error()) > maxComplaint) {
			t.Fatalf("complaint of %d bytes about %q", len(err.Error()), raw)
		}
	})
}
