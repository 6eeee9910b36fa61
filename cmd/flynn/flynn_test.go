package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// TestScripts runs every testdata/*.txtar: the real command line, one script for each behaviour.
func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestPolicyScripts runs the scripts that assemble policies from their text form.
func TestPolicyScripts(t *testing.T) {
	_, err := exec.LookPath("wat2wasm")
	need.Part(t, "wabt", err)
	runScripts(t, "testdata/wabt")
}

func runScripts(t *testing.T, dir string) {
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
			env.Setenv("HOME", env.WorkDir+"/home")
			return os.Mkdir(env.WorkDir+"/home", 0o700)
		},
	})
}

// release is the script command "release DIR": it makes DIR a release of Flynn with the plugins and policies in DIR/lib/flynn.
func release(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: release DIR")
	}
	dir := ts.MkAbs(args[0])
	program, err := os.Executable()
	ts.Check(err)
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
