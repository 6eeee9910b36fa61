package selftest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func sessionProbes() []Probe {
	const row = "cross-session"
	probe := func(name, why string, run attack, c func(*Subject) Control) Probe {
		return Probe{Name: "session/" + name, Row: row, Why: why, Setting: "report this: sessions must be kept apart", Run: run, Control: c}
	}
	return []Probe{
		probe("files", "one session reads another's workspace", neighbourFiles, func(s *Subject) Control {
			return Control{Weakness: docker.Weakness{Mount: driver.Mount{Source: s.NeighbourDir, Target: "/neighbour"}}}
		}),
		probe("processes", "one session sees what another runs", neighbourProcesses, always(Control{Weakness: docker.Weakness{HostPids: true}})),
		probe("own-pid", "processes of the host can be seen and signalled", ownNamespace("pid"), always(Control{Weakness: docker.Weakness{HostPids: true}})),
		probe("own-ipc", "shared memory of the host can be read", ownNamespace("ipc"), always(Control{Weakness: docker.Weakness{HostIPC: true}})),
		probe("own-uts", "the host's name is shared state", ownNamespace("uts"), always(Control{Weakness: docker.Weakness{HostNames: true}})),
		{
			Name: "session/own-net", Row: row, Why: "services on the host's loopback trust every peer there", Setting: networkSetting,
			Run: configured(ownNamespace("net")), Control: always(Control{Weakness: docker.Weakness{HostNetwork: true}}),
		},
	}
}

// neighbourFiles looks for a file of the other session, by its path on the host and in the mounts.
func neighbourFiles(ctx context.Context, s *Subject) (Finding, error) {
	mark := fmt.Sprintf("mark%d", rand.Uint64())
	if err := s.Neighbour.WriteFile(ctx, "mark", []byte(mark), 0o644); err != nil {
		return Finding{}, err
	}
	// The name of its own working folder is known to the neighbour, so only names beside it count.
	out, err := output(ctx, s.Target, fmt.Sprintf(
		`cat %s/mark 2>/dev/null; cat /proc/self/mountinfo; for f in /*/mark; do [ "$f" != "$PWD/mark" ] && cat "$f"; done 2>/dev/null; true`, s.NeighbourDir))
	if strings.Contains(out, mark) || strings.Contains(out, filepath.Base(s.NeighbourDir)+" ") {
		return breached("the other session's workspace is there"), nil
	}
	return held("no sign of the other workspace"), err
}

func neighbourProcesses(ctx context.Context, s *Subject) (Finding, error) {
	mark := fmt.Sprint(1_000_000 + rand.IntN(1_000_000))
	p, err := s.Neighbour.Start(ctx, machine.Command{Script: "exec sleep " + mark})
	if err != nil {
		return Finding{}, err
	}
	out, err := output(ctx, s.Target, `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' ' '; true`)
	if _, killed := s.Neighbour.Kill(ctx, p.ID); err == nil {
		err = killed
	}
	if strings.Contains(out, mark) {
		return breached("the other session's process is listed"), err
	}
	return held("not listed"), err
}

// ownNamespace compares a namespace with this process's, which is meaningful on a local engine only: elsewhere they always differ.
func ownNamespace(kind string) attack {
	path := "/proc/self/ns/" + kind
	return func(ctx context.Context, s *Subject) (Finding, error) {
		ours, err := os.Readlink(path)
		if err != nil {
			return Finding{}, err
		}
		theirs, err := output(ctx, s.Target, "readlink "+path)
		if err != nil {
			return Finding{}, err
		}
		neighbours, err := output(ctx, s.Neighbour, "readlink "+path)
		if err != nil {
			return Finding{}, err
		}
		if theirs == ours || theirs == neighbours {
			return breached("%s is shared", theirs), nil
		}
		return held("%s is its own", theirs), nil
	}
}
