package livetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
)

// mustFlynn runs a subcommand that has to succeed.
func (s *site) mustFlynn(args ...string) {
	s.t.Helper()
	if out, errs, err := s.flynn("", args...); err != nil {
		s.t.Fatalf("flynn %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
}

// unhurried are the limits of a policy on a machine that may have other work: a decision takes the time that it takes.
const unhurried = "limits = { wall = \"10s\" }\n"

// wordPolicy sends messages with a word to coder.
const wordPolicy = `package main

import (
	"strings"

	"github.com/flynnhost/flynn/sdk/policy"
)

func init() {
	policy.Route(func(f policy.RouteFacts) policy.RouteAnswer {
		if strings.Contains(f.Text(), "WORD") {
			return policy.RouteAnswer{Agent: "coder", Rule: 1, Reason: "it says WORD"}
		}
		return policy.RouteAnswer{}
	})
}

func main() {}
`

func TestRoutePolicyIsSwappedLive(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	config := strings.NewReplacer("ADDRESS", addr, "\"net:bob\" = \"coder\"\n", "").Replace(ircConfig) +
		"[[policies]]\nname = \"words\"\npath = \"words/policy.wasm\"\nkinds = [\"route\"]\n" + unhurried +
		model(t, "default", "helper speaking") + model(t, "complex", "coder speaking")
	s := newSite(t, config)
	s.mustFlynn("policy", "dev", "new", filepath.Join(s.dir, "words"), "--lang", "go")
	// The cases that it came with are of another policy, and would keep this one out.
	if err := os.Remove(filepath.Join(s.dir, "words", "cases", "route.toml")); err != nil {
		t.Fatal(err)
	}
	s.buildWords("deploy")
	s.start()
	pid := s.cmd.Process.Pid
	ann := newPerson(t, addr, "ann")
	ann.meet()
	hear := func(word, answer string) {
		t.Helper()
		ann.send("PRIVMSG #flynn :flynn: please " + word)
		ann.await(answer, patience)
	}
	hear("deploy", "coder speaking")
	hear("rest", "helper speaking")

	before := s.policy("words").Digest
	s.buildWords("rest")
	s.eventually("the new module is in force", func() error {
		if p := s.policy("words"); p.Digest == before || !p.OK {
			return fmt.Errorf("status is %+v", p)
		}
		return nil
	})
	hear("deploy", "helper speaking")
	hear("rest", "coder speaking")

	good := s.policy("words").Digest
	s.write("words/policy.wasm", "not a module")
	s.eventually("the broken module is reported", func() error {
		if p := s.policy("words"); p.OK || p.State != "stale" || p.Digest != good || !strings.Contains(p.Detail, "WebAssembly") {
			return fmt.Errorf("status is %+v", p)
		}
		return nil
	})
	s.logged("level=ERROR", "policy file refused", "policy=words", "words/policy.wasm")
	hear("deploy", "helper speaking")
	hear("rest", "coder speaking")

	s.buildWords("deploy")
	s.eventually("the module is well again", func() error {
		if p := s.policy("words"); !p.OK {
			return fmt.Errorf("status is %+v", p)
		}
		return nil
	})
	hear("rest", "helper speaking")
	if s.cmd.ProcessState != nil || s.cmd.Process.Pid != pid {
		t.Error("the host did not go on running")
	}
}

func (s *site) buildWords(word string) {
	s.t.Helper()
	s.write("words/policy.go", strings.ReplaceAll(wordPolicy, "WORD", word))
	s.mustFlynn("policy", "dev", "build", filepath.Join(s.dir, "words"))
}

func (s *site) policy(name string) gateway.PolicyStatus {
	s.t.Helper()
	for _, p := range s.status().Policies {
		if p.Name == name {
			return p
		}
	}
	s.t.Fatalf("no policy %s in the status", name)
	return gateway.PolicyStatus{}
}

func TestGuardToolsTellsGuestsFromOwners(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	config := strings.NewReplacer(
		"ADDRESS", addr,
		"[agent_configs.helper]", "[agent_configs.helper]\ntool_profile = \"coding\"",
		`mode = "open"`, `mode = "open"`+"\nowners = [\"net:ann\"]",
		"\"net:bob\" = \"coder\"\n", "",
	).Replace(ircConfig) + `[models.default]
provider = "demo"
[models.complex]
provider = "demo"
[[policies]]
name = "guard-tools"
path = "guard/policy.wasm"
kinds = ["tool"]
` + unhurried
	s := newSite(t, config)
	s.copyPolicy("guard-tools", "guard")
	s.start()
	ann, bob := newPerson(t, addr, "ann"), newPerson(t, addr, "bob")
	ann.meet()
	bob.send("PRIVMSG flynn :!sh curl http://127.0.0.1:9/")
	bob.await("refused: a policy denies this call: guard-tools: only the owner's agent reaches the network: curl", patience)
	if waiting := ask[[]gateway.Approval](s, "/api/v1/approvals"); len(waiting) > 0 {
		t.Errorf("a person is asked about a denied call: %+v", waiting)
	}

	ann.send("PRIVMSG flynn :!sh curl http://127.0.0.1:9/ || echo it ran")
	var waiting []gateway.Approval
	s.eventually("a person is asked about the owner's command", func() error {
		if waiting = ask[[]gateway.Approval](s, "/api/v1/approvals"); len(waiting) != 1 {
			return fmt.Errorf("%d requests", len(waiting))
		}
		return nil
	})
	if reasons := fmt.Sprint(waiting[0].Reasons); strings.Contains(reasons, "guard-tools") {
		t.Errorf("the policy restricts the owner: %s", reasons)
	}
	if _, err := s.call("/api/v1/approvals/"+waiting[0].ID+"/decision", map[string]bool{"grant": true}); err != nil {
		t.Fatal(err)
	}
	ann.await("it ran", patience)
}

// copyPolicy builds a policy of this repository in a folder of the site, as somebody would who took its source.
func (s *site) copyPolicy(name, folder string) {
	s.t.Helper()
	dir := filepath.Join(s.dir, folder)
	s.mustFlynn("policy", "dev", "new", dir, "--lang", "go", "--kind", "tool")
	for _, old := range []string{"policy.go", "policy_test.go", "cases/tool.toml"} {
		if err := os.Remove(filepath.Join(dir, old)); err != nil {
			s.t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "policies", name, "*.*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".wasm") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		s.write(filepath.Join(folder, filepath.Base(file)), string(text))
	}
	s.mustFlynn("policy", "dev", "build", dir)
}
