package opa

import (
	"encoding/json"
	"testing"
)

// A fact of the frame stands once in the document, under one name.
func TestFactsAreDifferent(t *testing.T) {
	for kind, facts := range map[string][]Fact{"route": RouteFacts(), "tool": ToolFacts()} {
		names, fields := map[string]bool{Args: true}, map[int]bool{}
		for _, f := range facts {
			if names[f.Name] || fields[int(f.Field)] {
				t.Errorf("%s: %s, of field %d, stands twice", kind, f.Name, f.Field)
			}
			names[f.Name], fields[int(f.Field)] = true, true
		}
	}
}

func TestSchemaNamesTheFactsOfTheKinds(t *testing.T) {
	for _, c := range []struct {
		name        string
		route, tool bool
		has, hasNot string
		properties  int
	}{
		{"route", true, false, "candidate", "args", len(RouteFacts())},
		{"tool", false, true, "args", "agents", len(ToolFacts()) + 1},
		{"both", true, true, "args", "channel_", len(RouteFacts()) + len(toolFacts()) + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := json.Marshal(Schema(c.route, c.tool))
			if err != nil {
				t.Fatal(err)
			}
			var s struct{ Properties map[string]any }
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			if s.Properties[c.has] == nil || s.Properties[c.hasNot] != nil || len(s.Properties) != c.properties {
				t.Errorf("%d properties, %s: %v, %s: %v", len(s.Properties), c.has, s.Properties[c.has], c.hasNot, s.Properties[c.hasNot])
			}
		})
	}
}
