package main

import (
	"testing"

	"github.com/BurntSushi/toml"
)

// The defaults in policy.toml must be those that the module takes without data.
func TestTheManifestShowsTheDefaults(t *testing.T) {
	var manifest struct{ Data map[string]string }
	if _, err := toml.DecodeFile("policy.toml", &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Data) == 0 {
		t.Fatal("policy.toml has no data")
	}
	for key, shown := range manifest.Data {
		if got := builtin(key); got != shown {
			t.Errorf("%s: policy.toml has %q, the module %q", key, shown, got)
		}
	}
}
