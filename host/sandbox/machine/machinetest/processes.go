package machinetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func startProcess(t *testing.T, m machine.Machine, cmd machine.Command) machine.Process {
	t.Helper()
	// The process must outlive the context of its start.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := m.Start(ctx, cmd)
	if err != nil {
		t.Fatalf("start %q: %v", cmd.Script, err)
	}
	return p
}

// find returns the listed process of that id.
func find(t *testing.T, m machine.Machine, id string) machine.Process {
	t.Helper()
	list, err := m.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.ID == id {
			return p
		}
	}
	t.Fatalf("process %s is not among %+v", id, list)
	return machine.Process{}
}

// outputOf waits until a process has ended and returns all its output.
func outputOf(t *testing.T, m machine.Machine, id string) string {
	t.Helper()
	eventually(t, "end of process "+id, func() bool { return !find(t, m, id).Running })
	out, err := m.Output(t.Context(), id, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Data)
}

func testProcesses(t *testing.T, m machine.Machine) {
	long := startProcess(t, m, machine.Command{Script: "echo up; sleep 1000"})
	if long.ID == "" || long.PID <= 0 || !long.Running || long.Started.IsZero() || long.Script != "echo up; sleep 1000" || long.Result != nil {
		t.Errorf("started process: %+v", long)
	}
	short := startProcess(t, m, machine.Command{Script: "cat; echo $WORD >&2; pwd | sed 's,.*/,,'; exit 5", Stdin: []byte("in "), Env: map[string]string{"WORD": "env"}})
	if short.ID == long.ID {
		t.Errorf("two processes are called %s", short.ID)
	}
	outputOf(t, m, short.ID)
	ended := find(t, m, short.ID)
	if ended.Result == nil || ended.Result.ExitCode != 5 {
		t.Errorf("ended process: %+v, result %+v; want exit code 5", ended, ended.Result)
	}
	if !find(t, m, long.ID).Running {
		t.Error("the long process ended as well")
	}
	eventually(t, "output of the running process", func() bool {
		out, err := m.Output(t.Context(), long.ID, 0, 100)
		return err == nil && string(out.Data) == "up\n" && out.Running
	})
	for name, err := range map[string]error{
		"output": second(m.Output(t.Context(), "no-such-process", 0, 10)),
		"kill":   second(m.Kill(t.Context(), "no-such-process")),
	} {
		if !errors.Is(err, machine.ErrNotFound) {
			t.Errorf("%s of an unknown process: %v, want not found", name, err)
		}
	}
	if _, err := m.Start(t.Context(), machine.Command{Script: "true", Dir: "../../.."}); !errors.Is(err, machine.ErrOutside) {
		t.Errorf("start in a folder outside: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func testProcessKill(t *testing.T, m machine.Machine) {
	p := startProcess(t, m, machine.Command{Script: "trap '' TERM; (trap '' TERM; sleep 1000; sleep 1000) & echo $! >>pids; echo $$ >>pids; echo ready; sleep 1000; sleep 1000"})
	eventually(t, "process ready", func() bool {
		out, err := m.Output(t.Context(), p.ID, 0, 100)
		return err == nil && len(out.Data) > 0
	})
	killed, err := m.Kill(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if killed.Running || killed.Result == nil || killed.Result.Kill == nil || killed.Result.Kill.Survivors != 0 {
		t.Errorf("killed process: %+v, result %+v", killed, killed.Result)
	}
	checkGone(t, m, 2)
	again, err := m.Kill(t.Context(), p.ID)
	if err != nil || again.Running {
		t.Errorf("second kill: %+v, error %v; want the same end", again, err)
	}
}

func testProcessOutput(t *testing.T, m machine.Machine) {
	p := startProcess(t, m, machine.Command{Script: "printf 0123; printf 4567 >&2; printf 89"})
	if got := outputOf(t, m, p.ID); len(got) != 10 {
		t.Errorf("joined output %q, want ten digits", got)
	}
	p = startProcess(t, m, machine.Command{Script: "printf 0123456789"})
	outputOf(t, m, p.ID)
	for _, c := range []struct {
		offset int64
		max    int
		want   string
	}{{0, 4, "0123"}, {4, 4, "4567"}, {8, 100, "89"}, {10, 5, ""}, {99, 5, ""}} {
		out, err := m.Output(t.Context(), p.ID, c.offset, c.max)
		if err != nil || string(out.Data) != c.want || out.Next != out.Offset+int64(len(c.want)) || out.Running || out.Dropped != 0 {
			t.Errorf("output from %d: %+v %q, error %v; want %q", c.offset, out, out.Data, err, c.want)
		}
	}
	flood := startProcess(t, m, machine.Command{Script: "i=0; while [ $i -lt 40 ]; do head -c 65536 /dev/zero | tr '\\0' x; i=$((i+1)); done; printf END"})
	outputOf(t, m, flood.ID)
	checkFlood(t, m, flood.ID, 40*65536+3)
}

// checkFlood checks that the end of an output of total bytes is kept, at the right offset.
func checkFlood(t *testing.T, m machine.Machine, id string, total int64) {
	t.Helper()
	out, err := m.Output(t.Context(), id, 0, 1000)
	if err != nil || out.Offset <= 0 || out.Dropped != out.Offset || len(out.Data) != 1000 {
		t.Fatalf("start of a flood: offset %d, dropped %d, %d bytes, error %v; want a gap", out.Offset, out.Dropped, len(out.Data), err)
	}
	out, err = m.Output(t.Context(), id, total-3, 1000)
	if err != nil || string(out.Data) != "END" || out.Next != total {
		t.Errorf("end of a flood: %q, next %d, error %v; want %q, %s", out.Data, out.Next, err, "END", fmt.Sprint(total))
	}
}
