package author

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"

	"github.com/flynnhost/flynn/host/policy"
)

const cManifest = "name = \"p\"\nabi = \"flynn 1\"\nkinds = [\"route\"]\nlanguage = \"c\"\n"

func TestAFailedBuildLeavesTheOldModule(t *testing.T) {
	dir := folder(t, map[string]string{
		manifestFile: cManifest, "policy.c": "#include \"flynn.h\"\nFLYNN_ON_ROUTE(f) { return flynn_abstain(); }\n",
	})
	mustBuild(t, dir)
	module := filepath.Join(dir, "policy.wasm")
	before := read(t, module)
	write(t, filepath.Join(dir, "policy.c"), "#include \"flynn.h\"\nint oops(void) { return }\n")
	_, err := Build(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "policy.c:2:") {
		t.Errorf("got %v, want the compiler's error with its line", err)
	}
	if read(t, module) != before {
		t.Error("the old module is gone or changed")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".build-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAMissingToolchainIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for language, want := range map[string]string{
		"c": "apt install clang lld", "go": "go.dev/dl", "rust": "apt install rustc libstd-rust-dev-wasm32",
		"assemblyscript": "npm install --save-dev assemblyscript",
	} {
		t.Run(language, func(t *testing.T) {
			dir := folder(t, map[string]string{manifestFile: strings.Replace(cManifest, `"c"`, `"`+language+`"`, 1)})
			_, err := Build(t.Context(), dir)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want advice with %q", err, want)
			}
		})
	}
}

func TestOldGo(t *testing.T) {
	for version, want := range map[string]bool{"go1.19.8": true, "go1.23": true, "go1.24": false, "go1.24.1": false, "go1.26.8": false, "devel go1.27-abc": false} {
		if got := tooOld(version); got != want {
			t.Errorf("%s: got %v", version, got)
		}
	}
}

func TestTheSameSourceMakesTheSameModule(t *testing.T) {
	need.Long(t) // it builds with a real compiler
	var sums []string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "same")
		if err := New(dir, "go", policy.KindTool); err != nil {
			t.Fatal(err)
		}
		a, err := Build(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, a.SHA256)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds in two folders: %v", sums)
	}
}

func TestManifestErrors(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"no name", `name = "p"`, ``, "name ="},
		{"a contract to come", `"flynn 1"`, `"flynn 2"`, `speaks "flynn 1"`},
		{"no kinds", `["route"]`, `[]`, "kinds is empty"},
		{"a kind that does not exist", `["route"]`, `["model"]`, `kinds has "model"`},
		{"a language that does not exist", `language = "c"`, `language = "cobol"`, strings.Join(Languages(), ", ") + ", wasm"},
		{"an unknown key", `name = "p"`, "name = \"p\"\nlimit = 3", `unknown key "limit"`},
		{"an output elsewhere", `language = "c"`, "language = \"c\"\nbuild.output = \"../x.wasm\"", "policy's folder"},
		{"a size that is none", `language = "c"`, "language = \"c\"\nlimits.memory = \"much\"", "much"},
		{"no TOML", `name = "p"`, "name", "policy.toml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, map[string]string{manifestFile: strings.Replace(cManifest, c.from, c.to, 1)})
			if _, err := LoadManifest(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := LoadManifest(t.TempDir()); err == nil || !strings.Contains(err.Error(), "flynn policy dev new") {
		t.Errorf("an empty folder: got %v", err)
	}
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := writeNew(path, text); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
