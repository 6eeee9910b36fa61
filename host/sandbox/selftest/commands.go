package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func endProbes() []Probe {
	const setting = "report this: nothing may survive its command"
	alone := always(Control{Single: true})
	var all []Probe
	for _, c := range []struct{ name, why, text string }{
		{"double-fork", "a process without a parent is forgotten", `(sh -c 'trap "" TERM; sleep 60 & sleep 60' &); sleep 60`},
		{"new-sessions", "a process group's end misses it", `trap '' TERM; setsid sh -c 'trap "" TERM; setsid sleep 60 & sleep 60' & sleep 60`},
		{"chain", "a process that is always another one is never hit", `printf 'sleep 0.01; setsid sh ./chain.sh &\nexit 0\n' >chain.sh; setsid sh ./chain.sh & sleep 60`},
		{"fifo", "a process that waits in the kernel", `rm -f wait; mkfifo wait; trap '' TERM; cat wait`},
		{"stopped", "a stopped process hears no TERM", `setsid sleep 60 & kill -STOP $$; sleep 60`},
	} {
		all = append(all, Probe{
			Name: "timeout/" + c.name, Row: "timeout escape", Why: c.why, Setting: setting, Run: ended(c.text), Control: alone,
		})
	}
	return append(all, Probe{
		Name: "abort/cancel", Row: "abort", Why: "work that was called off goes on", Setting: setting, Run: aborted, Control: alone,
	})
}

// aborted cancels commands at random moments during and after their start.
func aborted(ctx context.Context, s *Subject) (Finding, error) {
	return outlive(ctx, s, func() (last machine.Result, err error) {
		begun := false
		for n := 1; n <= 10 || !begun && n <= 100; n++ { // on a slow machine, until one has begun
			brief, cancel := context.WithTimeout(ctx, time.Duration(5+rand.IntN(15*max(n, 10)))*time.Millisecond)
			r, err := s.Target.Exec(brief, machine.Command{Script: `trap '' TERM; setsid sleep 60 & sleep 60`, Timeout: scriptTimeout})
			cancel()
			if err != nil && brief.Err() == nil {
				return r, err
			}
			begun = begun || err == nil && (r.Canceled || r.TimedOut)
			if r.Kill != nil {
				last = r
			}
		}
		return last, nil
	})
}

func outputProbes() []Probe {
	const setting = "report this: the supervisor must keep to it"
	return []Probe{
		{
			Name: "output/flood", Row: "output flood", Why: "endless output fills the host's memory", Setting: setting,
			Run: flood, Control: always(Control{}),
		},
		{
			Name: "output/bytes", Row: "bytes of output", Why: "what the model is shown is not what was written", Setting: setting,
			Run: rawBytes, Control: always(Control{Terminal: true}),
		},
		{
			Name: "output/exit-codes", Row: "exit codes", Why: "a killed command passes for one that failed", Setting: setting,
			Run: exitCodes, Control: always(Control{}),
		},
	}
}

func flood(ctx context.Context, s *Subject) (Finding, error) {
	const total, keep = 32 << 20, 64 << 10
	r, err := s.Target.Exec(ctx, machine.Command{
		Script: fmt.Sprintf("head -c %d /dev/zero", total), MaxOutput: keep, Timeout: scriptTimeout,
	})
	if err != nil {
		return Finding{}, err
	}
	if len(r.Stdout) != keep || r.Dropped != total-keep {
		return breached("%d bytes kept, %d counted as dropped", len(r.Stdout), r.Dropped), nil
	}
	return held("%d bytes kept, %d dropped and counted", len(r.Stdout), r.Dropped), nil
}

func rawBytes(ctx context.Context, s *Subject) (Finding, error) {
	r, err := s.Target.Exec(ctx, machine.Command{
		Script: `printf 'a\000\377\376\303\050\033[31m\n\r\n\342\202'`, Timeout: scriptTimeout,
	})
	if err != nil {
		return Finding{}, err
	}
	if want := []byte("a\x00\xff\xfe\xc3(\x1b[31m\n\r\n\xe2\x82"); !bytes.Equal(r.Stdout, want) {
		return breached("%q came out of %q", r.Stdout, want), nil
	}
	return held("every byte as written"), nil
}

func exitCodes(ctx context.Context, s *Subject) (Finding, error) {
	for _, c := range []struct {
		text, signal string
		code         int
	}{
		{"exit 0", "", 0}, {"exit 1", "", 1}, {"./no-such-program", "", 127}, {"./.", "", 126}, {"exit 130", "", 130},
		{"exit 137", "", 137}, {"exit 143", "", 143}, {"kill -KILL $$", "SIGKILL", -1}, {"kill -TERM $$", "SIGTERM", -1},
	} {
		r, err := s.Target.Exec(ctx, machine.Command{Script: c.text, Timeout: scriptTimeout})
		if err != nil {
			return Finding{}, err
		}
		if r.ExitCode != c.code || r.Signal != c.signal {
			return breached("%q: exit code %d, signal %q", c.text, r.ExitCode, r.Signal), nil
		}
	}
	return held("each differs from the others"), nil
}

func leakProbes() []Probe {
	const row = "env leak"
	return []Probe{
		{
			Name: "leak/environment", Row: row, Why: "variables of the host hold secrets", Setting: "report this: commands must get none of the host's environment",
			Run: environment, Control: always(Control{Weakness: docker.Weakness{Env: "FLYNN_VERIFY_TOKEN=token"}}),
		},
		{
			Name: "leak/next-command", Row: row, Why: "a command reads the secrets of an earlier one", Setting: "hand secrets to commands in files, which can be removed, or restart the sandbox after them",
			Run: nextCommand, Control: always(Control{Single: true}),
		},
	}
}

// environment looks for variables of the host and of Flynn. The image's variables are meant for its commands.
func environment(ctx context.Context, s *Subject) (Finding, error) {
	out, err := output(ctx, s.Target, "env")
	if err == nil && !strings.Contains(out, "PATH=") {
		err = errors.New("env shows no PATH")
	}
	if err != nil {
		return Finding{}, err
	}
	harmless := []string{"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "TERM"} // which may be equal on both sides
	host := os.Environ()
	for line := range strings.Lines(out) {
		variable := strings.TrimSpace(line)
		name, _, is := strings.Cut(variable, "=")
		if is && (strings.HasPrefix(name, "FLYNN_") || slices.Contains(host, variable) && !slices.Contains(harmless, name)) {
			return breached("variable %s", name), nil
		}
	}
	return held("none of the host's"), nil
}

// nextCommand leaves a process with a secret in its environment, and looks for it from the next command.
func nextCommand(ctx context.Context, s *Subject) (Finding, error) {
	token := fmt.Sprintf("token%d", rand.Uint64())
	_, err := s.Target.Exec(ctx, machine.Command{
		Script: "setsid sleep 60 >/dev/null 2>&1 &", Env: map[string]string{"FLYNN_VERIFY_TOKEN": token}, Timeout: scriptTimeout,
	})
	if err != nil {
		return Finding{}, err
	}
	out, err := output(ctx, s.Target, `cat /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n'; true`)
	if strings.Contains(out, token) {
		return allowed("a process left in the background keeps its environment, which the session's other commands see"), nil
	}
	return held("gone with its command"), err
}
