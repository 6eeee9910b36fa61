//go:build unix

package scaffold

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/conform"
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	sandboxkind "github.com/flynnhost/flynn/host/plugin/kind/sandbox"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/sdk"
	"github.com/flynnhost/flynn/sdk/need"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
)

// write makes a plugin inside this module, where the SDK is found without a download; go leaves folders called testdata out of "./...".
func write(t *testing.T, c Config) string {
	t.Helper()
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	parent, err := os.MkdirTemp("testdata", "new")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	c.Dir = filepath.Join(parent, c.Name)
	dir, err := Write(c)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// goTool runs go in dir, which must not have a module of its own for that.
func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	need.Source(t)
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

func conforms(t *testing.T, dir string) {
	t.Helper()
	report, err := conform.Run(t.Context(), conform.Config{Dir: dir, Config: suite.Config{Patience: 15 * time.Second, Slack: 45 * time.Second}}) // the machine may have other work
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		t.Logf("%-4s %s %s", r.Outcome, r.Check, r.Detail)
		if r.Outcome == suite.Fail {
			t.Errorf("%s fails: %s", r.Check, r.Detail)
		}
	}
	if n := report.Count(suite.Pass); n < len(report.Results)/2 {
		t.Errorf("only %d of %d checks could be made", n, len(report.Results))
	}
}

func TestGo(t *testing.T) {
	t.Parallel()
	for _, kind := range []kind.Name{channelkind.Name, toolkind.Name} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dir := write(t, Config{Name: "my-plugin", Kind: kind, Release: "v0.1.0"})
			module, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err != nil || !strings.Contains(string(module), "require github.com/flynnhost/flynn v0.1.0") || strings.Contains(string(module), "replace") {
				t.Errorf("go.mod is %s, %v", module, err)
			}
			if err := os.Remove(filepath.Join(dir, "go.mod")); err != nil { // inside this module it is a package
				t.Fatal(err)
			}
			goTool(t, dir, "build", "-trimpath", "-o", "bin/my-plugin", ".")
			goTool(t, dir, "vet", ".")
			goTool(t, dir, "test", "-count=1", ".")
			conforms(t, dir)
		})
	}
}

// TestGoSandbox: the skeleton of a driver is the example, so that there is one to keep right. The tests of package drivers use the example.
func TestGoSandbox(t *testing.T) {
	need.Source(t)
	dir := write(t, Config{Name: "my-driver", Kind: sandboxkind.Name, Release: "v0.1.0"})
	for _, name := range []string{"main.go", "main_test.go", "conform.toml"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../../examples/docker-driver", name))
		if err != nil || string(got) != strings.ReplaceAll(string(want), "docker-driver", "my-driver") {
			t.Errorf("%s differs from that of examples/docker-driver (%v)", name, err)
		}
	}
	m, err := plugin.ReadManifest(dir)
	if err == nil {
		t.Errorf("a manifest without a built program is accepted: %+v", m)
	}
	if err := os.Remove(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	goTool(t, dir, "build", "-trimpath", "-o", "bin/my-driver", ".")
	goTool(t, dir, "test", "-count=1", ".")
	if m, err = plugin.ReadManifest(dir); err != nil || !m.Permissions.State {
		t.Errorf("manifest %+v, %v", m, err)
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("node")
	need.Part(t, "node", err)
	for _, kind := range []kind.Name{channelkind.Name, toolkind.Name} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			conforms(t, write(t, Config{Name: "my-plugin", Language: "node", Kind: kind}))
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"a name that is a path": {Config{Name: "../x"}, "cannot be a plugin's name"},
		"another language":      {Config{Name: "my-plugin", Language: "cobol"}, "use go or node"},
		"another kind":          {Config{Name: "my-plugin", Kind: "policy"}, "use channel, tools or sandbox"},
		"a kind without it":     {Config{Name: "my-plugin", Language: "node", Kind: "sandbox"}, "in node: use go"},
		"what is there":         {Config{Name: "my-plugin", Dir: dir}, "exists: choose another name"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Write(c.config); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}

// TestExample keeps the example in Node and the template of the same thing from growing apart.
func TestExample(t *testing.T) {
	dir := write(t, Config{Name: "node-echo-channel", Language: "node"})
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join("../../../examples/node-echo-channel", f.Name()))
		if err != nil || string(have) != string(want) {
			t.Errorf("%s is not what flynn plugin dev new writes: run it again for the example (%v)", f.Name(), err)
		}
	}
}

// TestStepsOfTheREADME takes a plugin outside of this module through the printed steps, as they stand in its README, without a network: what
// the SDK needs comes from the cache that this module was built from.
func TestStepsOfTheREADME(t *testing.T) {
	need.Source(t)
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := Write(Config{Name: "my-plugin", Dir: filepath.Join(t.TempDir(), "my-plugin"), Kind: toolkind.Name})
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(step string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", step)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off", "GOSUMDB=off", "GOPROXY=file://"+strings.TrimSpace(string(cache))+"/cache/download,off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.TrimSpace(step), err, out)
		}
	}
	steps := 0
	for line := range strings.Lines(string(readme)) {
		step, ok := strings.CutPrefix(line, "    ")
		if !ok || strings.HasPrefix(step, "flynn ") {
			continue
		}
		steps++
		run(step)
	}
	run("go vet .") // its test has all packages that it needs
	if steps != 2 {
		t.Errorf("the README has %d steps", steps)
	}
	conforms(t, dir)
}

// TestTheSDKsModule keeps what the SDK requires in line with this module.
func TestTheSDKsModule(t *testing.T) {
	need.Source(t)
	own, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	have, err := sdk.PluginSources.ReadFile("plugin.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(have)) {
		want := strings.TrimSuffix(strings.TrimSpace(line), " // indirect")
		if want != "require (" && want != ")" && !strings.Contains(string(own), want) {
			t.Errorf("sdk/plugin.mod has %q, which go.mod has not", want)
		}
	}
}
