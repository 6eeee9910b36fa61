package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// crashInstance makes this test program a host that runs a command under that instance name.
const crashInstance = "FLYNN_TEST_CRASH_INSTANCE"

// A host killed outright leaves nothing running: its end of the stream is gone, so the supervisor
// ends, and the engine removes the container.
func TestHostCrashLeavesNothing(t *testing.T) {
	h := sandboxtest.Engine(t)
	config := h.Config(t)
	if instance := os.Getenv(crashInstance); instance != "" {
		config.Instance = instance
		m, err := sandbox.New(config)
		if err != nil {
			t.Fatal(err)
		}
		s := get(t, m, "s", config.Spec)
		_, err = s.Exec(t.Context(), machine.Command{Script: "echo started; sleep 100", Progress: func(_ machine.Stream, p []byte) {
			fmt.Printf("\ncommand %s", p)
		}})
		t.Fatal("still alive", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostCrashLeavesNothing$")
	cmd.Env = append(os.Environ(), crashInstance+"="+config.Instance, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "command started" {
	}
	if n := len(containers(t, h, config.Instance)); n != 1 {
		t.Errorf("%d containers before the crash", n)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the container is gone", func() bool { return len(containers(t, h, config.Instance)) == 0 })
}

func TestManyCommandsAtOnce(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	s := get(t, m, "s", config.Spec)
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			for j := range 10 {
				want := fmt.Sprintf("%d-%d\n", i, j)
				r, err := s.Exec(t.Context(), machine.Command{Script: "cat; printf %s \"$N\" >&2", Stdin: []byte(want), Env: map[string]string{"N": want}})
				if err != nil || string(r.Stdout) != want || string(r.Stderr) != want {
					t.Errorf("got %q, %q, want %q (%v)", r.Stdout, r.Stderr, want, err)
				}
			}
		})
	}
	all.Wait()
}

// Many bombs at once must not bring down the supervisor, which can get no thread meanwhile.
func TestSupervisorOutlivesManyBombs(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "s", config.Spec)
	id := containers(t, h, config.Instance)[0].ID
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			r, err := s.Exec(t.Context(), machine.Command{
				Script: `bomb() { setsid sh -c 'while :; do sleep 1 & done' & bomb & bomb; }; bomb 2>/dev/null; sleep 100`, Timeout: time.Second,
			})
			if errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("supervisor is gone: %v", err)
			}
			if r.Kill != nil && r.Kill.Survivors != 0 {
				t.Errorf("survivors: %+v", r.Kill)
			}
		})
	}
	all.Wait()
	shell(t, s, "true")
	if owned := containers(t, h, config.Instance); len(owned) != 1 || owned[0].ID != id {
		t.Errorf("the container was replaced: %+v", owned)
	}
}
