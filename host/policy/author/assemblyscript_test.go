package author

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"

	"github.com/flynnhost/flynn/host/policy"
)

// faults is a policy that goes wrong in the way that the text says.
const faults = `import { RouteAnswer, RouteFacts, Utf8, abstain, agent, domain, drop, none, re2, route } from "@flynnhost/policy";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

class Memory {
  text: Utf8 = none;
}

let last: Utf8 = none;
let count = 0;
const memory = new Memory();
const seen = new Map<string, bool>();
const list: string[] = [];

function decide(facts: RouteFacts): RouteAnswer {
  const text = facts.text;
  if (text.is("throw")) throw new Error("this is w\u00f6rse");
  if (text.is("assert")) assert(facts.role.is("owner"), "no owner");
  if (text.is("bare assert")) assert(facts.role.is("owner"));
  if (text.is("global")) last = facts.sender;
  if (text.is("field")) memory.text = facts.sender;
  if (text.is("map")) seen.set(text.toString(), true);
  if (text.is("array")) list.push("static");
  if (text.is("index")) text.byte(5);
  if (text.is("array index")) return drop().because(list[7]);
  if (text.is("pattern")) return re2("(", text) ? drop() : abstain();
  if (text.is("domain")) return domain("", text) ? drop() : abstain();
  if (text.is("no agent")) return agent(facts.account);
  if (text.is("both")) {
    const both = agent("helper");
    both.drop = true;
    return both;
  }
  if (text.is("long name")) return agent("a".repeat(8192));
  if (text.is("huge")) {
    let all = "x";
    while (true) all += all;
  }
  if (text.is("deep")) return decide(new RouteFacts(0, 0, 0));
  if (text.is("a number may stay")) count++;
  if (text.is("own object")) {
    const own = new Memory();
    own.text = facts.sender;
    const words = text.split(32);
    words.push(own.text);
    return drop().because(words[2]);
  }
  return abstain().because("n".repeat(10000));
}
`

func TestAssemblyScriptFailsClosed(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		manifestFile: strings.Replace(cManifest, `"c"`, `"assemblyscript"`, 1) + "limits.memory = \"2m\"\nlimits.wall = \"1s\"\n", "policy.ts": faults,
	})
	mustBuild(t, dir)
	a := mustOpen(t, dir, nil)
	for text, want := range map[string]string{
		"throw":       "this is wörse (policy.ts:20:",
		"assert":      "no owner (policy.ts:21:",
		"bare assert": "(policy.ts:22:",
		"global":      "a global variable keeps an object of the decision",
		"field":       "an object that outlives the decision was given one that does not",
		"map":         "an object that outlives the decision was given one that does not",
		"array":       "an object that outlives the decision was given one that does not",
		"index":       "outside the text",
		"array index": "Index out of range",
		"pattern":     "the host refuses this pattern: (",
		"domain":      "the host refuses this pattern",
		"no agent":    "the answer names no agent",
		"both":        "answer:",
		"long name":   "answer:",
		"huge":        "memory:",
	} {
		f := conformanceFacts()
		f.Text = text
		o := outcomeOf(a.ask(t.Context(), Case{Kind: policy.KindRoute, Ask: settled(t, f)}, nil))
		if !strings.Contains(o.Error, want) {
			t.Errorf("%s: got %+v, want an error with %q", text, o, want)
		}
	}
	for text, want := range map[string]string{"a number may stay": "nnnnnn", "own object": "irc:bob"} {
		f := conformanceFacts()
		f.Text, f.Sender = text, "irc:bob"
		o := outcomeOf(a.ask(t.Context(), Case{Kind: policy.KindRoute, Ask: settled(t, f)}, nil))
		if o.Error != "" || !strings.HasPrefix(o.Reason, want) {
			t.Errorf("%s: got %+v, want a reason like %q", text, o, want)
		}
	}
}

// One module comes from one source, whether the SDK is the policy's own or this Flynn's, and wherever it lies.
func TestAssemblyScriptModulesAreReproducible(t *testing.T) {
	t.Parallel()
	var first string
	for _, name := range []string{"a/same", "b/c/same"} {
		dir := filepath.Join(t.TempDir(), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := New(dir, "assemblyscript", policy.KindTool); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "b") {
			if err := os.RemoveAll(filepath.Join(dir, "vendor")); err != nil {
				t.Fatal(err)
			}
		}
		mustBuild(t, dir)
		sum := read(t, filepath.Join(dir, "policy.wasm"))
		if first == "" {
			first = sum
		}
		if sum != first {
			t.Errorf("%s: another module", name)
		}
	}
}

// A policy's own asconfig.json is obeyed.
func TestAssemblyScriptOptionsAreThePolicys(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mine")
	if err := New(dir, "assemblyscript", policy.KindRoute); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "asconfig.json")
	write(t, config, strings.Replace(read(t, config), `"path"`, `"optimizeLevel": 0, "textFile": "policy.wat", "path"`, 1))
	mustBuild(t, dir)
	if missing(filepath.Join(dir, "policy.wat")) {
		t.Error("the text that it asks for was not written")
	}
}

// The compiler that the policy's folder has installed is used before the one on PATH.
func TestTheNearestCompilerIsUsed(t *testing.T) {
	dir := t.TempDir()
	near := filepath.Join(dir, "node_modules", ".bin", "asc")
	write(t, near, "#!/bin/sh\n")
	if err := os.Chmod(near, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{dir, filepath.Join(dir, "policies", "mine")} {
		if got, err := findCompiler(t.Context(), from); err != nil || got[0] != near {
			t.Errorf("from %s: got %v, %v", from, got, err)
		}
	}
	global, err := exec.LookPath("asc")
	need.Part(t, "asc", err)
	if got, err := findCompiler(t.Context(), t.TempDir()); err != nil || got[0] != global {
		t.Errorf("elsewhere: got %v, %v", got, err)
	}
}
