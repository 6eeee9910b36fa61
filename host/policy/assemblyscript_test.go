package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// buildAssemblyScript compiles a policy with the SDK as it lies in this repository.
func buildAssemblyScript(t testing.TB, source string) string {
	t.Helper()
	sdk, err := filepath.Abs("../../sdk/policy/assemblyscript")
	if err != nil {
		t.Fatal(err)
	}
	packages := t.TempDir()
	if err := os.Mkdir(filepath.Join(packages, "@flynnhost"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sdk, filepath.Join(packages, "@flynnhost", "policy")); err != nil {
		t.Fatal(err)
	}
	return asc(t, source, "--config", filepath.Join(sdk, "asconfig.json"), "--path", packages)
}

// rulesAssemblyScript has no SDK, like its twins.
func rulesAssemblyScript(t testing.TB) string {
	return asc(t, "testdata/bench/rules.ts", "-O3", "--runtime", "stub", "--use", "abort=", "--exportStart", "_initialize")
}

func asc(t testing.TB, args ...string) string {
	t.Helper()
	need.Long(t)
	_, err := exec.LookPath("asc")
	need.Part(t, "asc", err)
	out := filepath.Join(t.TempDir(), "policy.wasm")
	run(t, nil, "asc", append(args, "--outFile", out)...)
	return out
}

// An instance that is used again and again neither grows nor slows down, though each decision makes objects: the same question costs
// the same fuel whatever came before it.
func TestAnAssemblyScriptInstanceDoesNotGrow(t *testing.T) {
	path := buildAssemblyScript(t, "testdata/assemblyscript/churn.ts")
	e := engine(t, Source{Name: "hash", Path: path, Kinds: []string{KindRoute}, Isolation: IsolationWarm, Data: map[string]string{"key": "value"},
		Limits: Limits{Wall: maxWall}})
	i, failed := e.slots[0].module.pool.get(t.Context(), 0)
	if failed != nil {
		t.Fatal(failed)
	}
	defer e.slots[0].module.pool.put(i)
	messages, _ := ruleMessages()
	var queries []*query
	for k := range messages {
		messages[k].Message.Text = "a few words"
		if k == 1 {
			messages[k].Message.Text += strings.Repeat("x", 1200) // more than the frame holds
		}
		queries = append(queries, routeQuery(&messages[k], "UTC", newAgentList(messages[k].Agents)))
	}
	first := make([]Record, len(queries))
	size := i.memory.Size()
	for n := range 10_000 {
		k := n % len(queries)
		if k == 1 && n%800 != 1 { // the long one takes its time
			k = 0
		}
		var r Record
		var v decision
		if i.decide(t.Context(), queries[k], &r, &v); v.err != nil {
			t.Fatal(v.err)
		}
		if n < len(queries) {
			first[k] = r
		} else if r.Fuel != first[k].Fuel || r.Raw != first[k].Raw {
			t.Fatalf("decision %d: fuel %d and answer %x, at first %d and %x", n, r.Fuel, r.Raw, first[k].Fuel, first[k].Raw)
		}
	}
	if i.memory.Size() != size {
		t.Errorf("the memory grew from %d to %d bytes", size, i.memory.Size())
	}
	t.Logf("10,000 decisions, memory %d bytes, fuel %d to %d", size, first[0].Fuel, first[1].Fuel)
}
