package main

import "testing"

// The inputs are those of cases/lines.toml.
func TestDecide(t *testing.T) {
	for name, in := range map[string][2]string{
		"owner":    {"owner", "# skip a longer # x stop b"},
		"member":   {"member", "coder x member"},
		"guest":    {"guest", "one two three"},
		"stranger": {"stranger", ""},
		"panic":    {"owner", "panic"},
		"index":    {"owner", "index"},
		"silent":   {"owner", ""},
	} {
		t.Run(name, func(t *testing.T) { decide(in[0], in[1]) })
	}
}
