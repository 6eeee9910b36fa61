package selftest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// scriptTimeout bounds a script that should end by itself.
const scriptTimeout = 20 * time.Second

// programName is the name of flynn-probe in the workspace.
const programName = "flynn-probe"

// attack is the type of a probe's Run.
type attack = func(ctx context.Context, s *Subject) (Finding, error)

// script runs a shell script that reports its result like flynn-probe.
func script(text string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		r, err := s.Target.Exec(ctx, machine.Command{Script: text, Timeout: scriptTimeout})
		if err != nil {
			return Finding{}, err
		}
		return answer(r)
	}
}

// program runs flynn-probe.
func program(args string) attack { return script("./" + programName + " " + args) }

// answer parses the last line. Without an explicit answer the attack does not count as held.
func answer(r machine.Result) (Finding, error) {
	lines := strings.Split(strings.TrimSpace(string(r.Stdout)), "\n")
	word, what, _ := strings.Cut(lines[len(lines)-1], ": ")
	switch word {
	case "held":
		return held("%s", what), nil
	case "breach":
		return breached("%s", what), nil
	}
	return Finding{}, fmt.Errorf("probe gave no answer: exit code %d, signal %q, %.200q", r.ExitCode, r.Signal, r.Stderr)
}

// output runs a script that must succeed and returns its stdout.
func output(ctx context.Context, t Target, text string) (string, error) {
	r, err := t.Exec(ctx, machine.Command{Script: text, Timeout: scriptTimeout})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return "", fmt.Errorf("%.60q ended with exit code %d: %.200q", text, r.ExitCode, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout)), nil
}

// always returns a Control that does not depend on the subject.
func always(c Control) func(*Subject) Control {
	return func(*Subject) Control { return c }
}
