package livetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

const swapConfig = `[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/store"
[routing]
default_agent = "main"
[agent_configs.main]
[[policies]]
name = "p"
path = "p/policy.wasm"
kinds = ["route"]
on_error_agent = "main"
`

// abstaining leaves every message to the table, for a reason of the number n.
func abstaining(n int64) string {
	return string(w.Policy(1).Hook("flynn_route", "", w.I64(int64(abi.RouteAbstain)|n<<8)))
}

func run[T any](s *site, args ...string) T {
	s.t.Helper()
	out, errs, err := s.flynn("", append(args, "--json")...)
	var v T
	if err == nil {
		err = json.Unmarshal([]byte(out), &v)
	}
	if err != nil {
		s.t.Fatalf("flynn %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return v
}

// listed is the policy as flynn policy list shows it.
func (s *site) listed() gateway.PolicyStatus {
	s.t.Helper()
	return run[[]gateway.PolicyStatus](s, "policy", "list")[0]
}

// swapped writes the policy's file and waits until it was tried.
func (s *site) swapped(wasm, want string) gateway.PolicyStatus {
	s.t.Helper()
	before := s.policy("p")
	s.write("p/policy.wasm", wasm)
	var p gateway.PolicyStatus
	s.eventually("the file is "+want, func() error {
		if p = s.policy("p"); p.State != want || p.File == before.File && p.Detail == before.Detail {
			return fmt.Errorf("status %+v", p)
		}
		return nil
	})
	return p
}

func TestInstalledPolicyComesIntoForceLive(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.Replace(swapConfig, `path = "p/policy.wasm"`, `policy = "p"`, 1))
	publish := func(version string, rule int64) {
		s.t.Helper()
		s.write("p/policy.wasm", abstaining(rule))
		s.write("p/policy.toml", fmt.Sprintf("name = \"p\"\nversion = %q\nabi = \"flynn 1\"\nkinds = [\"route\"]\nlanguage = \"wasm\"\n", version))
		s.mustFlynn("policy", "install", filepath.Join(s.dir, "p"))
	}
	publish("1.0.0", 1)
	s.start()
	first := s.policy("p")
	if first.Version != "1.0.0" || first.State != "running" {
		t.Fatalf("status %+v", first)
	}
	publish("1.1.0", 2)
	var second gateway.PolicyStatus
	s.eventually("the new version is in force", func() error {
		if second = s.policy("p"); second.Version != "1.1.0" || second.State != "running" {
			return fmt.Errorf("status %+v", second)
		}
		return nil
	})
	// A module that is changed on the disk never comes into force, not even by a restart; the one in force stays.
	if err := os.Chmod(second.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(second.Path, []byte(abstaining(3)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.write("policies.lock", s.read("policies.lock")+"\n") // so that it is looked at now
	stale := func() error {
		if p := s.policy("p"); p.State != "stale" || p.File != second.File || !strings.Contains(p.Detail, "policy.wasm is not the file that was installed") {
			return fmt.Errorf("status %+v", p)
		}
		return nil
	}
	s.eventually("the changed file is refused", stale)
	s.stop()
	s.start()
	s.eventually("the changed file is refused after a restart", stale)
	s.mustFlynn("policy", "rollback", "p", "--to", first.File)
	if p := s.listed(); p.File != first.File || p.State != "pinned" {
		t.Errorf("rolled back to %+v", p)
	}
}

func (s *site) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func TestPolicyIsProvenWatchedAndRolledBackLive(t *testing.T) {
	t.Parallel()
	s := newSite(t, swapConfig)
	s.write("p/policy.wasm", abstaining(1))
	s.start()
	first := s.policy("p").File
	second := s.swapped(abstaining(2), "running").File

	s.mustFlynn("policy", "rollback", "p")
	if p := s.listed(); p.File != first || p.Pinned != first || p.State != "pinned" || !strings.Contains(p.Detail, "flynn policy rollback p --clear") {
		t.Errorf("rolled back to %+v", p)
	}
	s.stop()
	if p := s.listed(); p.State != "not running" || p.Pinned != first || p.Detail == "" {
		t.Errorf("at rest %+v", p)
	}
	s.start()
	if p := s.listed(); p.File != first || p.State != "pinned" {
		t.Errorf("after a restart %+v", p)
	}
	s.mustFlynn("policy", "rollback", "p", "--clear")
	if p := s.listed(); p.File != second || p.Pinned != "" || p.State != "running" {
		t.Errorf("cleared %+v", p)
	}
	s.stop()
	s.mustFlynn("policy", "rollback", "p", "--to", first[:12])
	s.start()
	if p := s.listed(); p.File != first || p.State != "pinned" {
		t.Errorf("rolled back at rest %+v", p)
	}

	// Its own cases keep a module out; the roll-back ends with the change of the file, whatever comes of it.
	s.write("p/policy.toml", "name = \"p\"\nversion = \"1.2.0\"\nabi = \"flynn 1\"\nkinds = [\"route\"]\nlanguage = \"wasm\"\n")
	s.write("p/cases/route.toml", "[[case]]\nname = \"rule three\"\nwant = { abstain = true, rule = 3 }\n")
	if p := s.swapped(abstaining(4), "stale"); !strings.Contains(p.Detail, `case "rule three" of route.toml fails: rule: want 3, got 4`) || p.File != first {
		t.Errorf("against its cases %+v", p)
	}
	good := s.swapped(abstaining(3), "running")
	if good.Version != "1.2.0" {
		t.Errorf("version %q", good.Version)
	}

	// A module that passes, and fails in force.
	s.write("p/cases/route.toml", "[[case]]\nname = \"it fails\"\nwant = { error = \"trap\" }\n")
	bad := s.swapped(string(w.Policy(1).Hook("flynn_route", "", w.Op(0))), "running")
	for n := range 5 {
		s.send("main", fmt.Sprint("m", n), "hello")
	}
	s.eventually("the failing module is taken out of force", func() error {
		if p := s.policy("p"); p.State != "stale" || p.File != good.File || !strings.Contains(p.Detail, "taken out of force") {
			return fmt.Errorf("status %+v", p)
		}
		return nil
	})
	const want = "in force by start, in force by file, rolled back by command, cleared by command, in force by command, " +
		"rolled back by command, refused by file, in force by file, in force by file, reverted by failures"
	s.eventually("the history has it all", func() error { // the last row comes after the state
		var story []string
		for _, c := range run[[]journal.Change](s, "policy", "history", "p") {
			story = append(story, c.Outcome+" by "+c.By)
			if c.Outcome == "reverted" && (c.File != bad.File || c.NowFile != good.File) {
				t.Errorf("the revert is recorded as %+v", c)
			}
		}
		if got := strings.Join(story, ", "); got != want {
			return fmt.Errorf("history is %s\nwant %s", got, want)
		}
		return nil
	})
	if out, _, err := s.flynn("", "policy", "rollback", "nobody"); err == nil {
		t.Errorf("an unknown policy was rolled back: %s", out)
	}
	metrics, err := s.call("/metrics", nil)
	if want := `flynn_policy_loads_total{policy="p",result="reverted"} 1`; err != nil || !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %s (%v)", want, err)
	}
}
