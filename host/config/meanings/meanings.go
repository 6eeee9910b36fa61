// Package meanings has a sentence or two about every key of flynn.toml, for programs that show them.
//
// Start with Of. The texts are those of examples/flynn.reference.toml; a test of package config writes keys.json from it. The package knows
// no types and no defaults: the schema in package config has them.
package meanings

import (
	_ "embed"
	"encoding/json"
	"sync"
)

//go:embed keys.json
var keys []byte

// Meaning is what the reference says about a key.
type Meaning struct {
	Text string `json:"text,omitempty"`
	// Example is a value as TOML writes it.
	Example string `json:"example,omitempty"`
}

var all = sync.OnceValue(func() map[string]Meaning {
	m := map[string]Meaning{}
	if err := json.Unmarshal(keys, &m); err != nil {
		panic(err) // a test writes the file
	}
	return m
})

// Of returns the meaning of a key of a table, such as Sandbox.image; it is empty if the reference has none.
func Of(table, key string) Meaning { return all()[table+"."+key] }
