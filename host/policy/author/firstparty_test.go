package author

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/message"

	"github.com/flynnhost/flynn/host/policy"
)

func firstParty(name string) string { return filepath.Join("..", "..", "..", "policies", name) }

// The policies that ship with Flynn pass their cases, on modules built here and now.
func TestFirstPartyPolicies(t *testing.T) {
	t.Parallel()
	for name, cases := range map[string]int{
		"command-allow-list": 120,
		"group-etiquette":    30,
		"guard-tools":        40,
		"incident-freeze":    40,
		"office-hours":       30,
		"owner-only-shell":   30,
		"router":             30,
		"spending":           40,
		"untrusted-content":  40,
	} {
		t.Run(name, func(t *testing.T) {
			mustBuild(t, firstParty(name))
			mustPass(t, firstParty(name), cases)
			if _, ok := richData()[name]; ok {
				affordsLongTexts(t, name)
			}
		})
	}
}

// The longest text that a sender can write must not spend a routing policy's fuel.
func TestOfficeHoursAffordsTheLongestText(t *testing.T) {
	mustBuild(t, firstParty("office-hours"))
	a := mustOpen(t, firstParty("office-hours"), map[string]string{"mentions": strings.Repeat("abc=helper ", 63) + "zzz=coder"})
	for name, text := range map[string]string{
		"words that begin alike": strings.Repeat("ab ", message.MaxText/3),
		"one word":               strings.Repeat("a", message.MaxText),
	} {
		f := conformanceFacts()
		f.Text = "zzz " + text[:message.MaxText-4]
		o := outcomeOf(a.ask(t.Context(), Case{Kind: policy.KindRoute, Ask: settled(t, f)}, nil))
		if o.Agent != "coder" || o.Fuel == 0 {
			t.Errorf("%s: %v", name, o)
		}
		t.Logf("%s: fuel %d", name, o.Fuel)
	}
}

// So must a command line of any sane length. A command line that is too long to read fails the guard, which denies the call.
func TestGuardToolsAffordsLongCommands(t *testing.T) {
	t.Parallel()
	mustBuild(t, firstParty("guard-tools"))
	a := mustOpen(t, firstParty("guard-tools"), map[string]string{})
	f := conformanceFacts()
	f.Role = "member"
	for n, fails := range map[int]bool{11: false, 16 << 10: false, 1 << 20: true} {
		args, err := json.Marshal(map[string]string{"command": strings.Repeat("echo hello;", n/11)})
		if err != nil {
			t.Fatal(err)
		}
		o := outcomeOf(a.ask(t.Context(), Case{Kind: policy.KindTool, Ask: settled(t, f), Args: args}, nil))
		if (o.Error != "") != fails || !fails && !o.Sandbox {
			t.Errorf("a command of %d bytes: %v", n, o)
		}
		t.Logf("a command of %d bytes: %v", n, o)
	}
}

func settled(t *testing.T, f Facts) Facts {
	t.Helper()
	if err := f.Settle(); err != nil {
		t.Fatal(err)
	}
	return f
}
