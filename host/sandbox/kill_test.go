package sandbox_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// stubborn are commands that do their best not to end.
var stubborn = []struct{ name, script string }{
	{"plain sleep", `sleep 100`},
	{"pipeline", `sleep 100 | sleep 100 | sleep 100`},
	{"ignores TERM", `trap '' TERM; while :; do sleep 1; done`},
	{"double fork", `(sh -c 'sleep 100 &' &); sleep 100`},
	{"many new sessions", `i=0; while [ $i -lt 20 ]; do setsid sleep 100 & i=$((i+1)); done; sleep 100`},
	{"new sessions ignoring TERM", `trap '' TERM; setsid sh -c 'setsid sh -c "while :; do sleep 1; done" & while :; do sleep 1; done' & sleep 100`},
	{"setsid chain", `printf 'setsid sh ./chain.sh &\nexit 0\n' > chain.sh; sh ./chain.sh & sh ./chain.sh & sh ./chain.sh & sleep 100`},
	{"fork bomb", `sh -c 'bomb() { bomb | bomb & }; bomb' & exec sleep 100`},
	{"fork bomb of sessions", `printf 'trap "" TERM\nwhile :; do setsid sh ./bomb.sh & done\n' > bomb.sh; sh ./bomb.sh & exec sleep 100`},
	{"blocked on a FIFO", `rm -f fifo; mkfifo fifo; cat fifo`},
	{"stopped", `kill -STOP $$; sleep 100`},
	{"kills its group", `setsid sleep 100 & trap '' TERM; kill -TERM 0; sleep 100`},
	{"detached from its streams", `setsid sleep 100 <&- >&- 2>&- & sleep 100`},
}

// population is how many processes the engine counts in the instance's container.
func population(t testing.TB, h sandboxtest.Host, instance string) int {
	t.Helper()
	owned, err := h.Driver.List(t.Context(), instance)
	if err != nil || len(owned) != 1 {
		t.Fatalf("want one container, got %v (%v)", owned, err)
	}
	top, err := h.API.ContainerTop(t.Context(), owned[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(top.Processes)
}

// supervision is the population of a container where no command runs: the supervisor and its
// parked helper.
const supervision = 2

func TestStubbornCommandsLeaveNoSurvivor(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	config.Spec.MemoryBytes = 512 << 20 // for as many processes as there may be: the kernel would pick the one to end
	s := get(t, m, "kill", config.Spec)
	bystander, err := s.Start(t.Context(), machine.Command{Script: "exec sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]func(script string) machine.Result{
		"timeout": func(script string) machine.Result {
			return run(t, s, machine.Command{Script: script, Timeout: 300 * time.Millisecond})
		},
		"cancel": func(script string) machine.Result {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var once sync.Once
			r, err := s.Exec(ctx, machine.Command{Script: "echo begun; " + script, Progress: func(machine.Stream, []byte) {
				once.Do(func() { time.AfterFunc(300*time.Millisecond, cancel) }) // who leaves before it has begun gets no result
			}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
	}
	for how, end := range ends {
		for _, c := range stubborn {
			t.Run(how+"/"+c.name, func(t *testing.T) {
				r := end(c.script)
				if r.Kill == nil {
					t.Fatalf("no kill certificate: %+v", r)
				}
				if r.Kill.Survivors != 0 {
					t.Errorf("%d survivors", r.Kill.Survivors)
				}
				if r.Kill.Rung == "uid" || r.Kill.Rung == "container" {
					t.Errorf("rung %s would have harmed the bystander", r.Kill.Rung)
				}
				if r.TimedOut != (how == "timeout") || r.Canceled != (how == "cancel") {
					t.Errorf("timed out %v, canceled %v: %+v", r.TimedOut, r.Canceled, r)
				}
				// The engine's own count; the bystander is one.
				if n := population(t, h, config.Instance); n != supervision+1 {
					t.Errorf("%d processes in the container, want %d", n, supervision+1)
				}
				if got := shell(t, s, "echo alive"); got != "alive\n" {
					t.Errorf("next command printed %q", got)
				}
				t.Logf("rung %s after %v", r.Kill.Rung, r.Kill.Took)
			})
		}
	}
	if p := process(t, s, bystander.ID); !p.Running {
		t.Errorf("bystander ended: %+v", p.Result)
	}
}

func process(t testing.TB, m machine.Machine, id string) machine.Process {
	t.Helper()
	all, err := m.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.ID == id {
			return p
		}
	}
	t.Fatalf("no process %s in %+v", id, all)
	return machine.Process{}
}

func TestOrderlyCommandGetsTERM(t *testing.T) {
	t.Parallel()
	s := open(t)
	for n := 0; ; n++ {
		r := run(t, s, machine.Command{
			Script:  `trap 'echo saved; exit 7' TERM; while :; do sleep 0.01; done`,
			Timeout: 3 * time.Second, // until when the trap is set
		})
		if r.TimedOut && r.ExitCode == 7 && string(r.Stdout) == "saved\n" && r.Kill != nil && r.Kill.Rung == "term" {
			return
		}
		if !r.TimedOut || r.Kill == nil || r.Kill.Rung != "kill" || n == 10 { // where the machine has other work the time may be too short
			t.Fatalf("got %+v, kill %+v, stdout %q", r, r.Kill, r.Stdout)
		}
	}
}

func TestBackgroundKillTakesDescendants(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "kill", config.Spec)
	for _, c := range []struct {
		name, script string
		ended        bool
	}{
		{"running", "setsid sleep 100 & sleep 100", false},
		{"shell ended, child left", "setsid sleep 100 & exit 3", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := s.Start(t.Context(), machine.Command{Script: c.script})
			if err != nil {
				t.Fatal(err)
			}
			if c.ended {
				if p, err = s.Wait(t.Context(), p.ID); err != nil || p.Running || p.Result.ExitCode != 3 {
					t.Fatalf("waited for %+v (%v)", p, err)
				}
			}
			killed, err := s.Kill(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			if killed.Running || killed.Result == nil || killed.Result.Kill == nil || killed.Result.Kill.Survivors != 0 {
				t.Errorf("killed: %+v", killed)
			}
			if n := population(t, h, config.Instance); n != supervision {
				t.Errorf("%d processes in the container, want %d", n, supervision)
			}
		})
	}
}

// A process that stops all others of its user, again and again, holds up neither the commands that begin meanwhile nor its own
// end; some of them are stopped before they have begun, and say so.
func TestStopperHoldsNothingUp(t *testing.T) {
	s := open(t)
	p := start(t, s, machine.Command{Script: "trap '' TERM; while :; do kill -STOP -1; done"})
	stopped := 0
	for tries := 0; tries < 8 && stopped == 0; tries++ {
		r, err := s.Exec(t.Context(), machine.Command{Script: "sleep 0.01", Timeout: 50 * time.Millisecond})
		switch {
		case err != nil && strings.Contains(err.Error(), "has stopped it"):
			stopped++
		case err != nil:
			t.Fatal(err)
		case r.Kill != nil && (r.Kill.Survivors != 0 || r.Kill.Rung == "container"):
			t.Fatalf("got %+v, kill %+v", r, r.Kill)
		}
	}
	killed, err := s.Kill(t.Context(), p.ID)
	if err != nil || killed.Running || killed.Result.Kill == nil || killed.Result.Kill.Survivors != 0 || killed.Result.Kill.Rung == "container" {
		t.Errorf("killed: %+v (%v)", killed.Result, err)
	}
	t.Logf("%d were stopped before they began", stopped)
	if got := shell(t, s, "echo again"); got != "again\n" {
		t.Errorf("got %q", got)
	}
}

func TestMemoryHogIsToldFromKill(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.MemoryBytes = 32 << 20 })
	hog := run(t, s, machine.Command{Script: `tail /dev/zero`})
	if !hog.OOM || hog.ExitCode == 0 {
		t.Errorf("memory hog: %+v", hog)
	}
	killed := run(t, s, machine.Command{Script: `kill -KILL $$`})
	if killed.OOM || killed.Signal != "SIGKILL" || killed.ExitCode != -1 {
		t.Errorf("killed by itself: %+v", killed)
	}
	if got := shell(t, s, "echo alive"); got != "alive\n" {
		t.Errorf("next command printed %q", got)
	}
}

func TestPidsLimitIsReported(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.PidsLimit = 16 })
	r := run(t, s, machine.Command{Script: `i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done; wait`, Timeout: 4 * time.Second})
	if !r.PidsHit {
		t.Errorf("limit not noticed: %+v, stderr %s", r, r.Stderr)
	}
	if r.Kill != nil && r.Kill.Survivors != 0 {
		t.Errorf("survivors: %+v", r.Kill)
	}
	if ok := run(t, s, machine.Command{Script: "true"}); ok.PidsHit {
		t.Error("limit reported for an innocent command")
	}
}

func TestNoRoomForACommandIsAnError(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.PidsLimit = 16 })
	var kept []machine.Process
	for {
		p, err := s.Start(t.Context(), machine.Command{Script: "exec sleep 100"})
		if err != nil {
			if !strings.Contains(err.Error(), "pids limit") {
				t.Fatalf("error does not say why: %v", err)
			}
			break
		}
		kept = append(kept, p)
	}
	r, err := s.Exec(t.Context(), machine.Command{Script: "true"})
	if err == nil || !r.PidsHit {
		t.Errorf("command at the limit: %+v (%v)", r, err)
	}
	if k, err := s.Kill(t.Context(), kept[0].ID); err != nil || k.Result.Kill.Survivors != 0 {
		t.Fatalf("kill at the limit: %+v (%v)", k.Result, err)
	}
	shell(t, s, "true")
}
