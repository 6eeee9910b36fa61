package plugintest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestSchemaOfSettings(t *testing.T) {
	type room struct {
		Name  string  `json:"name"`
		Share float64 `json:"share,omitempty"`
	}
	for name, c := range map[string]struct {
		settings any
		want     string // or a part of the error, with ! before it
	}{
		"nothing": {struct{ hidden string }{}, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		"left out": {
			struct {
				A string `json:"-"`
				B *bool  `json:"b"`
			}{},
			`{"additionalProperties":false,"properties":{"b":{"type":"boolean"}},"type":"object"}`,
		},
		"lists, tables and numbers": {
			struct {
				Rooms []room         `json:"rooms"`
				Ports map[string]int `json:"ports"`
			}{},
			`{"additionalProperties":false,"properties":{"ports":{"additionalProperties":{"type":"integer"},"type":"object"},` +
				`"rooms":{"items":{"additionalProperties":false,"properties":{"name":{"type":"string"},"share":{"type":"number"}},"type":"object"},"type":"array"}},"type":"object"}`,
		},
		"no tag": {struct{ A string }{}, "!the field A has no json tag"},
		"a type that settings have not": {
			struct {
				A []func() `json:"a"`
			}{},
			"!settings of type func()",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schemaOf(reflect.TypeOf(c.settings))
			if part, bad := strings.CutPrefix(c.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, %v", s, err)
				}
				return
			}
			if text, merr := json.Marshal(s); err != nil || merr != nil || string(text) != c.want {
				t.Errorf("got %s, %v, want %s", text, err, c.want)
			}
		})
	}
}
