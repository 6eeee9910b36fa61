package main

import (
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/flynnhost/flynn/sdk/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/policytest"
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

// A guest's call is restricted whatever its facts are, unless it reads or is named free.
func TestWithoutDataTheDefaultsHold(t *testing.T) {
	(&policytest.Host{Args: `{"command":"ssh x"}`}).Use(t)
	for tool, want := range map[string]policy.Restriction{
		"shell.exec": {Deny: true, Rule: ruleNetworkCommand, Reason: "only the owner's agent reaches the network: ssh"},
		"file.edit":  {Sandbox: true, Rule: ruleSandbox, Reason: "not the owner"},
		"time.now":   {},
	} {
		if got := restrict(policytest.Tool(t, policytest.Frame{abi.Tool: tool, abi.Effect: "read", abi.Role: "guest"})); got != want {
			t.Errorf("%s: got %+v, want %+v", tool, got, want)
		}
	}
}
