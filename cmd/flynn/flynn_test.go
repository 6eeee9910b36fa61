package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/need"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"flynn": main})
}

// concurrent are the scripts whose commands do several things at once. Where these tests have the race detector, so do they. The commands of all
// other scripts, of which most only start and end, are those of plainFlynn: they take less than half the time. The command serve runs in this
// process, and so has the detector either way.
var concurrent = []string{
	"chat", "doctor", "downgrade_store", "logs", "plugin", "plugin_conform", "plugin_versions", "policy_cover", "policy_fuzz", "policy_install", "policy_loop",
	"policy_replay", "policy_shadow", "policy_test", "serve_attach", "upgrade_check", "upgrade_store",
}

// plainFlynn returns a folder with a flynn without the race detector, or "" where these tests have none either.
func plainFlynn(t *testing.T) string {
	about, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(about.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) || need.Sources() != nil {
		return ""
	}
	dir := t.TempDir()
	// With the tags of a release, as other tests build it, so that nothing is compiled twice. The go command keeps a program that it runs.
	cmd := exec.Command("go", "run", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-tags=urfave_cli_no_template,grpcnotrace,embedtz", "-exec=cp", ".", filepath.Join(dir, "flynn"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build flynn: %v\n%s", err, out)
	}
	return dir
}

// setUp gives a script a home of its own, and the flynn of a folder if there is one.
func setUp(env *testscript.Env, plain string) error {
	env.Setenv("HOME", env.WorkDir+"/home")
	if plain != "" {
		env.Setenv("PATH", plain+string(filepath.ListSeparator)+env.Getenv("PATH"))
	}
	return os.Mkdir(env.WorkDir+"/home", 0o700)
}

// TestScripts runs every testdata/*.txtar: the real command line, one script for each behaviour.
func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestPolicyScripts runs the scripts that assemble policies from their text form.
func TestPolicyScripts(t *testing.T) {
	_, err := exec.LookPath("wat2wasm")
	need.Part(t, "wabt", err)
	runScripts(t, "testdata/wabt")
}

func runScripts(t *testing.T, dir string) {
	plain := plainFlynn(t)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "wat": wat, "record": record, "shadows": leaveShadows, "spend": leaveUsage,
			"notes": leaveNotes, "oldstore": leaveOldStore, "newerstore": leaveNewerStore, "index": serveIndex, "strangers": leaveStrangers, "tell": leaveTurn,
			"serve": serveOne, "release": release,
		},
		UpdateScripts: os.Getenv("FLYNN_UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			if slices.Contains(concurrent, strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")) {
				return setUp(env, "")
			}
			return setUp(env, plain)
		},
	})
}

// release is the script command "release DIR": it makes DIR a release of Flynn with the plugins and policies in DIR/lib/flynn.
func release(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: release DIR")
	}
	dir := ts.MkAbs(args[0])
	program := filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "flynn")
	ts.Check(os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	// This process must not write the program: what another test starts meanwhile would hold it open, and nobody could execute it.
	flynn := filepath.Join(dir, "bin", "flynn")
	_ = os.Remove(flynn)
	if os.Link(program, flynn) != nil {
		ts.Check(ts.Exec("cp", program, flynn))
	}
	ts.Check(firstparty.WriteManifest(filepath.Join(dir, "lib", "flynn")))
}

// wat is the script command "wat IN OUT": it assembles a module.
func wat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: wat IN OUT")
	}
	ts.Check(ts.Exec("wat2wasm", args[0], "-o", args[1]))
}

// exits is the script command "exits CODE PROGRAM ARGS...": the program must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// TestRunIsReentrant keeps run free of state that a first call would leave to a second.
func TestRunIsReentrant(t *testing.T) {
	none := func(string) string { return "" }
	for range 2 {
		code := run(context.Background(), []string{"flynn", "--no-such-flag"}, none, nil, discard{}, discard{})
		if code != exitUsage {
			t.Fatalf("exit code %d, want %d", code, exitUsage)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// openStoreOf opens the store of a configuration of the script, for script commands that leave something there. The caller
// closes it.
func openStoreOf(ts *testscript.TestScript, path string) *sqlite.Store {
	c, err := config.Load(ts.MkAbs(path), func(key string) string { return map[string]string{"HOME": ts.Getenv("HOME")}[key] })
	ts.Check(err)
	s, err := sqlite.Open(context.Background(), c.Store.Dir)
	ts.Check(err)
	return s
}
