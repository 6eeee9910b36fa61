package author

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy/cover"
)

const scriptCovered = `import { RouteAnswer, RouteFacts, Utf8, abstain, agent, route, trace } from "@flynnhost/policy";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

function decide(facts: RouteFacts): RouteAnswer {
  switch (named(facts.role)) {
    case 1:
      return agent("coder", 1).because("the owner");
    case 2:
      trace(4, true);
      return agent("helper", 2).because("a member");
  }
  return abstain();
}

function named(role: Utf8): i32 {
  if (role.is("owner")) {
    trace(1, true);
    return 1;
  }
  if (role.is("member")) {
    trace(2, true);
    return 2;
  }
  trace(3, true);
  return 3;
}
`

// scriptPolicy is a built policy in AssemblyScript.
func scriptPolicy(t *testing.T) string {
	t.Helper()
	dir := folder(t, map[string]string{manifestFile: strings.Replace(cManifest, `"c"`, `"assemblyscript"`, 1), "policy.ts": scriptCovered})
	writeRoleCases(t, dir)
	mustBuild(t, dir)
	return dir
}

func TestCoverageOfAssemblyScript(t *testing.T) {
	t.Parallel()
	dir := scriptPolicy(t)
	checkCovered(t, dir, "policy.ts", map[string]map[int]bool{
		"":             {9: false, 11: false, 13: false, 14: false, 16: false, 21: false, 25: false, 28: false},
		"owner":        {9: false, 11: false, 13: true, 14: true, 16: true, 21: false, 25: true, 28: true},
		"member":       {9: false, 11: true, 13: false, 14: false, 16: true, 21: true, 25: false, 28: true},
		"owner|member": {11: false, 13: false, 14: false, 16: true, 21: false, 25: false, 28: true},
		"guest":        {11: true, 13: true, 14: true, 16: false, 21: true, 25: true, 28: false},
	})
	checkProfile(t, dir, "TN:p\nSF:some/folder/policy.ts\n", "DA:13,0\n", "DA:16,1\n", "end_of_record\n")
}

// A map costs a file beside the module: the module is the one that the compiler makes without a map.
func TestSourceMapChangesNoModule(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{scriptPolicy(t), firstParty("router")} {
		mustBuild(t, dir)
		m, err := LoadManifest(dir)
		if err != nil {
			t.Fatal(err)
		}
		plain := filepath.Join(t.TempDir(), "plain.wasm")
		if err := compileScriptWith(t.Context(), m, dir, plain); err != nil {
			t.Fatal(err)
		}
		if read(t, plain) != read(t, m.modulePath(dir)) {
			t.Errorf("%s: another module with a source map than without", dir)
		}
		if _, err := os.Stat(m.modulePath(dir) + cover.MapSuffix); err != nil {
			t.Error(err)
		}
	}
}

// Without a map that is of the module, coverage is by function.
func TestOtherSourceMap(t *testing.T) {
	t.Parallel()
	dir := scriptPolicy(t)
	path := filepath.Join(dir, "policy.wasm"+cover.MapSuffix)
	good := read(t, path)
	lines := func() bool {
		report, err := TestCovered(context.Background(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return report.Coverage.Lines != nil
	}
	if !lines() {
		t.Error("no lines")
	}
	write(t, path, good[:len(good)/2])
	if lines() {
		t.Error("lines of a broken map")
	}
	write(t, path, strings.Replace(good, `_sha256":"`, `_sha256":"0`, 1))
	if lines() {
		t.Error("lines of a map of another module")
	}
}

func TestOnlyTheNameOfTheMapIsCut(t *testing.T) {
	const module = "\x00asm\x01\x00\x00\x00\x00\x05\x04keep"
	const name = "\x00\x14\x10sourceMappingURL\x02./"
	for _, test := range []struct{ name, wasm, want string }{
		{"at the end", module + name, module},
		{"a size of two bytes", module + "\x00\x94\x00" + name[2:], module},
		{"not at the end", module + name + module[8:], ""},
		{"none", module, ""},
		{"no module", "", ""},
	} {
		if got, err := cutMapSection([]byte(test.wasm)); string(got) != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}
