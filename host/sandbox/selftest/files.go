package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

const fileSetting = "report this: the host must not follow what a workload laid out"

// naive is the control of all attacks on file requests: a host that joins paths and opens them.
var naive = always(Control{})

func linkProbes() []Probe {
	const row = "symlink escape"
	probe := func(name, why string, run attack) Probe {
		return Probe{Name: "files/" + name, Row: row, Why: why, Setting: fileSetting, Run: run, Control: naive}
	}
	traversal := func(name string, run attack) Probe {
		p := probe(name, "the agent overwrites files of the host", run)
		p.Row = "path traversal"
		return p
	}
	const reads, writes = "the agent is shown files of the host", "the agent overwrites files of the host"
	return []Probe{
		probe("link-to-file", reads, readsOutside("ln -sfn %s/secret link", "link")),
		probe("link-to-folder", reads, readsOutside("ln -sfn %s folder-link", "folder-link/secret")),
		probe("link-upwards", reads, readsOutside("ln -sfn ../../.. up; ln -sfn %s/secret link2", "link2")),
		probe("environment", "the host's environment holds its secrets", readsEnvironment),
		probe("write-through-link", writes, writesOutside("ln -sfn %s/written-1 wlink", "wlink", "written-1")),
		probe("write-through-folder", writes, writesOutside("ln -sfn %s wfolder", "wfolder/written-2", "written-2")),
		traversal("write-absolute", writesOutside(": %s", "", "written-3")),
		traversal("write-upwards", writesUpwards),
		probe("swapped-link", "a link put in place between check and use", race),
	}
}

// readsOutside prepares files with a script, in which %s is the folder outside, and makes the host read a path.
func readsOutside(layout, path string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		if _, err := output(ctx, s.Target, fmt.Sprintf(layout, s.Outside)); err != nil {
			return Finding{}, err
		}
		data, _, err := s.Target.ReadFile(ctx, path, 0, 4096)
		if bytes.Contains(data, []byte(secret)) {
			return breached("the host's file was read"), nil
		}
		return held("%v", err), nil
	}
}

func readsEnvironment(ctx context.Context, s *Subject) (Finding, error) {
	if _, err := output(ctx, s.Target, "ln -sfn /proc/self/environ environment"); err != nil {
		return Finding{}, err
	}
	data, _, err := s.Target.ReadFile(ctx, "environment", 0, 4096)
	if len(data) > 0 {
		return breached("%d bytes of an environment were read", len(data)), nil
	}
	return held("%v", err), nil
}

// writesOutside makes the host write to path, or directly to the file outside if path is empty.
func writesOutside(layout, path, lands string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		if _, err := output(ctx, s.Target, fmt.Sprintf(layout, s.Outside)); err != nil {
			return Finding{}, err
		}
		target := filepath.Join(s.Outside, lands)
		if path == "" {
			path = target
		}
		return lookAfterWrite(ctx, s, path, target)
	}
}

// writesUpwards writes to a file beside the workspace.
func writesUpwards(ctx context.Context, s *Subject) (Finding, error) {
	name := filepath.Base(s.Dir) + ".escaped"
	return lookAfterWrite(ctx, s, "../"+name, filepath.Join(filepath.Dir(s.Dir), name))
}

func lookAfterWrite(ctx context.Context, s *Subject, path, target string) (Finding, error) {
	refusal := s.Target.WriteFile(ctx, path, []byte("escaped"), 0o600)
	if _, err := os.Lstat(target); err == nil {
		return breached("a file was written outside"), os.Remove(target)
	}
	return held("%v", refusal), nil
}

// raceFor is how long the file is read once the links are exchanged: on a busy machine a command takes a while to begin.
const raceFor = 1500 * time.Millisecond

// race reads a file whose folder alternates between a link that leads outside and a folder inside.
func race(ctx context.Context, s *Subject) (Finding, error) {
	swap := fmt.Sprintf(`mkdir -p inner; echo harmless >inner/secret
while :; do ln -sfn inner swapped; ln -sfn %s swapped; done`, s.Outside)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Target.Exec(ctx, machine.Command{Script: swap, Timeout: patience + raceFor})
		ended <- err
	}()
	reads, seen := 0, false
	var until time.Time
	for until.IsZero() || time.Now().Before(until) {
		select {
		case err := <-ended:
			return Finding{}, errors.Join(errors.New("the link was not exchanged"), err)
		default:
		}
		if until.IsZero() {
			if _, _, err := s.Target.ReadFile(ctx, "inner/secret", 0, 4096); err == nil {
				until = time.Now().Add(raceFor)
			}
			continue
		}
		data, _, _ := s.Target.ReadFile(ctx, "swapped/secret", 0, 4096)
		seen = seen || bytes.Contains(data, []byte(secret))
		reads++
	}
	cancel()
	<-ended
	if seen {
		return breached("the host's file was read in one of %d attempts", reads), nil
	}
	return held("%d attempts", reads), nil
}

func specialFileProbes() []Probe {
	const row = "special files"
	probe := func(name, why string, run attack) Probe {
		return Probe{Name: "special/" + name, Row: row, Why: why, Setting: fileSetting, Run: run, Control: naive}
	}
	return []Probe{
		probe("fifo", "a file that never answers hangs the host", readsFIFO),
		probe("device", "a device has no end", readsNothing("ln -sfn /dev/zero endless", "endless")),
		probe("huge", "a huge file fills the host's memory", readsHuge),
	}
}

// patience is how long the host may take for a file that does not answer.
const patience = 6 * time.Second

func readsFIFO(ctx context.Context, s *Subject) (Finding, error) {
	if _, err := output(ctx, s.Target, "rm -f fifo; mkfifo fifo"); err != nil {
		return Finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, _, err := s.Target.ReadFile(ctx, "fifo", 0, 4096)
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) { // whichever timer fired first
		return breached("the read hangs"), nil
	}
	return held("%v", err), nil
}

func readsNothing(layout, path string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		if _, err := output(ctx, s.Target, layout); err != nil {
			return Finding{}, err
		}
		data, _, err := s.Target.ReadFile(ctx, path, 0, 4096)
		if len(data) > 0 {
			return breached("%d bytes were read", len(data)), nil
		}
		return held("%v", err), nil
	}
}

// readsHuge reads a little of a huge sparse file.
func readsHuge(ctx context.Context, s *Subject) (Finding, error) {
	if _, err := output(ctx, s.Target, "dd if=/dev/null of=huge bs=1048576 seek=64 2>/dev/null"); err != nil {
		return Finding{}, err
	}
	const asked = 4096
	data, size, err := s.Target.ReadFile(ctx, "huge", 0, asked)
	if len(data) > asked {
		return breached("%d bytes were read where %d were asked for", len(data), asked), nil
	}
	return held("%d of %d bytes were read", len(data), size), err
}
