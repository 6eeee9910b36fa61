package sandbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// Processes that a command leaves in the background end with it, whatever they do about that; those that Start began do not.
func TestCommandLeavesNothing(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "left", config.Spec)
	bystander := start(t, s, machine.Command{Script: "exec sleep 1000"})
	for _, c := range []struct {
		name, script string
		killed       bool
	}{
		{"nothing", "echo done", false},
		{"ended by then", "sleep 0.01 & wait; echo done", false},
		{"about to end", "sleep 0.02 & echo done", false},
		{"holds the streams", "sleep 100 & echo done", true},
		{"ignores TERM", "(trap '' TERM; sleep 100; sleep 100) & sleep 0.05; echo done", true},
		{"in a session of its own", "setsid sleep 100 <&- >&- 2>&- & sleep 0.05; echo done", true},
		{"double fork", "(sh -c 'setsid sleep 100 &' &); sleep 0.05; echo done", true},
		{"chain of sessions", `printf 'setsid sh ./chain.sh &\nexit 0\n' > chain.sh; sh ./chain.sh & sleep 0.1; echo done`, true},
		{"bomb", `printf 'while :; do setsid sh ./bomb.sh & done\n' > bomb.sh; sh ./bomb.sh 2>/dev/null & sleep 0.2; echo done`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			r := run(t, s, machine.Command{Script: c.script})
			for n := 0; n < 10 && r.Kill != nil && !c.killed; n++ { // where the machine has other work a child may not get to its end in time
				r = run(t, s, machine.Command{Script: c.script})
			}
			if string(r.Stdout) != "done\n" || r.ExitCode != 0 || r.TimedOut || r.Canceled {
				t.Errorf("got %+v, stdout %q", r, r.Stdout)
			}
			if c.killed != (r.Kill != nil) || r.Kill != nil && (r.Kill.Survivors != 0 || r.Kill.Rung == "uid") {
				t.Errorf("kill %+v, want one %v", r.Kill, c.killed)
			}
			if n := population(t, h, config.Instance); n != supervision+1 {
				t.Errorf("%d processes in the container, want %d", n, supervision+1)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	if p := process(t, s, bystander.ID); !p.Running {
		t.Errorf("bystander ended: %+v", p.Result)
	}
}

// A program's last words count although the shell did not wait for it.
func TestLastWordsOfALeftover(t *testing.T) {
	s := open(t)
	got := ""
	for n := 0; n < 10 && got != "first\nlast\n"; n++ { // where the machine has other work they may come too late
		got = shell(t, s, "(sleep 0.02; echo last) & echo first")
	}
	if got != "first\nlast\n" {
		t.Errorf("got %q", got)
	}
}

// An amok command reaches the limit, and leaves room for the next.
func TestAmokCommandLeavesNothing(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "amok", config.Spec)
	r := run(t, s, machine.Command{Script: `printf 'while :; do setsid sh ./bomb.sh & done\n' > bomb.sh; sh ./bomb.sh`, Timeout: 5 * time.Second})
	if !r.PidsHit || r.Kill == nil || r.Kill.Survivors != 0 {
		t.Errorf("got %+v, kill %+v", r, r.Kill)
	}
	if n := population(t, h, config.Instance); n != supervision {
		t.Errorf("%d processes in the container, want %d", n, supervision)
	}
}

// The files of background processes go when the processes are forgotten and a command needs the room.
func TestLeftoversMakeRoomForTheNextCommand(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.PidsLimit = 16 })
	for range 66 { // as many as are remembered, and two
		p := start(t, s, machine.Command{Script: "sleep 100 >/dev/null 2>&1 &"})
		if _, err := s.Wait(t.Context(), p.ID); err != nil {
			t.Fatal(err)
		}
	}
	// That left room for one; this takes it.
	start(t, s, machine.Command{Script: "exec sleep 100"})
	shell(t, s, "true")
}

// The certificate holds however often it is asked for, also while another command makes processes all the time: the very next
// command finds nobody of the last one, neither living nor dead.
func TestCertificateHoldsUnderLoad(t *testing.T) {
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy %v", busy), func(t *testing.T) {
			s := open(t, func(c *sandbox.Config) { c.Spec.PidsLimit = 100 })
			other := 0
			if busy {
				other = start(t, s, machine.Command{Script: "while :; do true | true; done"}).PID
			}
			for _, c := range stubborn {
				for round := range rounds {
					r := run(t, s, machine.Command{Script: c.script, Timeout: 60 * time.Millisecond})
					r.Stdout, r.Stderr = nil, nil
					kill := machine.Kill{Rung: "none"} // a bomb that finds no room may end by itself
					if r.Kill != nil {
						kill = *r.Kill
					}
					if r.TimedOut && r.Kill == nil || kill.Survivors != 0 || kill.Rung == "uid" || kill.Rung == "container" {
						t.Fatalf("%s, round %d: %+v, kill %+v", c.name, round, r, kill)
					}
					if left := strangers(t, s, other); len(left) != 0 {
						t.Fatalf("%s, round %d: %q are there after rung %s", c.name, round, left, kill.Rung)
					}
				}
			}
		})
	}
}

// strangers are the tags of commands inside besides this one's own and the one of process other. It uses the shell's own
// means, because forks would take time.
func strangers(t *testing.T, s *sandbox.Session, other int) []string {
	t.Helper()
	out := shell(t, s, fmt.Sprintf(`other=%d
tag() { groups=; while read -r key rest; do [ "$key" = Groups: ] && groups=$rest; done <$1/status; } 2>/dev/null
tag /proc/self; own=$groups; [ $other = 0 ] || tag /proc/$other; known=$groups
for d in /proc/[0-9]*; do tag $d; case $groups in "$own"|"$known") ;; *4[0-9][0-9][0-9][0-9]*) echo "$d $groups";; esac; done`, other))
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })
}
