package rude

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// The names serve as subtests, so each is there once; what is drawn depends on nothing but the source.
func TestNames(t *testing.T) {
	for list, values := range map[string][]Value{"texts": Texts(), "commands": Commands(), "ids": IDs(), "arguments": Arguments()} {
		seen := map[string]bool{}
		for _, v := range values {
			if v.Name == "" || seen[v.Name] {
				t.Errorf("%s: the name %q is empty or there twice", list, v.Name)
			}
			seen[v.Name] = true
		}
	}
	if a, b := Text(rand.New(rand.NewPCG(1, 2))), Text(rand.New(rand.NewPCG(1, 2))); a != b {
		t.Errorf("the same source gives %q and %q", a, b)
	}
}

// Every command arrives as it was written, once it has been through JSON.
func TestQuote(t *testing.T) {
	for _, c := range Commands() {
		var back string
		if err := json.Unmarshal([]byte(Quote(c.Text)), &back); err != nil || back != c.Text {
			t.Errorf("%s: %q came back as %q, %v", c.Name, c.Text, back, err)
		}
	}
}
