package opa

import (
	"encoding/json"
	"strings"
	"testing"
)

// Package rego, which has OPA, compares the results for the same arguments.

// FuzzBuiltins feeds any arguments: a builtin has a result, none, or an error, and never a long time or a huge text.
func FuzzBuiltins(f *testing.F) {
	for _, seed := range []string{
		`["%s %d %v",["a",1,[true,null,{"b":1.5}]]]`, `["%999999999d",[1]]`, `["%[1]*d",[5,1]]`, `[["a","b"],"a"]`, `["",""]`, `["2024-02-29T23:59:60Z"]`, `["1h1.5s"]`, `[1e400]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var args []any
		if len(text) > 64<<10 || d.Decode(&args) != nil {
			return
		}
		for _, b := range Builtins() {
			if len(args) != b.Arity || b.Call == nil {
				continue
			}
			result, err := b.Call(args)
			if s, ok := result.(string); ok && err == nil && len(s) > 1000*len(text)+1000 {
				t.Errorf("%s makes %d bytes of %d", b.Name, len(s), len(text))
			}
		}
	})
}

func TestBuiltinsRefuseWhatCannotBeBounded(t *testing.T) {
	many := make([]any, 300)
	for i := range many {
		many[i] = "a"
	}
	for name, c := range map[string]struct {
		builtin string
		args    []any
	}{
		"a wide format":        {"sprintf", []any{"%9999d", []any{json.Number("1")}}},
		"a precise format":     {"sprintf", []any{"%.99999f", []any{json.Number("1")}}},
		"a width by argument":  {"sprintf", []any{"%*d", []any{json.Number("9"), json.Number("1")}}},
		"an argument by index": {"sprintf", []any{"%[1]s", []any{"a"}}},
		"a long format":        {"sprintf", []any{strings.Repeat("x", maxFormat+1), []any{}}},
		"too many pairs":       {"strings.any_prefix_match", []any{many, many}},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := BuiltinNamed(c.builtin)
			if v, err := b.Call(c.args); err == nil || err == ErrUndefined {
				t.Errorf("got %v, %v", v, err)
			}
		})
	}
}
