package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest"
)

func TestShellExec(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	for _, c := range []struct {
		name    string
		args    args
		isError bool
		parts   []string
	}{
		{"stdout", args{"command": "echo hi"}, false, []string{"hi\n[exit code 0]"}},
		{"stderr joined", args{"command": "echo out; echo err >&2"}, false, []string{"out\nerr\n[exit code 0]"}},
		{"no newline", args{"command": "printf out; printf err >&2"}, false, []string{"out\nerr\n[exit code 0]"}},
		{"silent", args{"command": "true"}, false, []string{"[exit code 0]"}},
		{"fails", args{"command": "echo why >&2; exit 3"}, true, []string{"why\n[exit code 3]"}},
		{"signal", args{"command": "kill -SEGV $$"}, true, []string{"[ended by SIGSEGV]"}},
		{"timeout", args{"command": "echo before; sleep 100", "timeout": 1000}, true, []string{"before", "timed out after", "SIGTERM"}},
		{"flood", args{"command": "head -c 300000 /dev/zero | tr '\\0' x"}, false, []string{"37856 bytes of output dropped", "bytes left out", "file.read"}},
		{"left behind", args{"command": "sleep 100 & echo started"}, false, []string{"started", "left in the background was ended"}},
		{"cwd", args{"command": "pwd", "cwd": "/etc"}, true, []string{"leaves the workspace"}},
		{"missing cwd", args{"command": "pwd", "cwd": "nope"}, true, []string{"no such file"}},
		{"no command", args{"command": ""}, true, []string{"command"}},
		{"timeout as text", args{"command": "true", "timeout": "5s"}, true, []string{"timeout"}},
		{"timeout too long", args{"command": "true", "timeout": 3600001}, true, []string{"timeout"}},
		{"not UTF-8", args{"command": `printf '\377'`}, false, []string{"\uFFFD"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, WebConfig{})
			b.want(b.call("shell.exec", c.args), c.isError, c.parts...)
		})
	}
}

func TestShellExecRecordsTheResult(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	b := newBench(t, WebConfig{})
	var r machine.Result
	if err := json.Unmarshal(b.call("shell.exec", args{"command": "echo secret; exit 4"}).Record, &r); err != nil {
		t.Fatal(err)
	}
	if r.ExitCode != 4 || r.Wall <= 0 || len(r.Stdout) > 0 {
		t.Errorf("decision %+v, want exit code 4, a time and no output", r)
	}
}

func TestHostSecretsStayOut(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	b := newBench(t, WebConfig{})
	if r := b.call("shell.exec", args{"command": "env"}); strings.Contains(r.Text, "sk-secret") || !strings.Contains(r.Text, "PATH=") {
		t.Errorf("environment of a command: %s", r.Text)
	}
}

func TestProcessTools(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	b := newBench(t, WebConfig{})
	b.want(b.call("process.list", args{}), false, "no background processes")
	b.want(b.call("process.start", args{"command": "echo one; echo two >&2; exec sleep 1000"}), false, "started p1 with pid")
	for !strings.Contains(b.call("process.output", args{"id": "p1"}).Text, "two") {
		if t.Context().Err() != nil {
			t.Fatal("no output")
		}
	}
	b.want(b.call("process.output", args{"id": "p1"}), false, "one\n", "two\n", "[running; go on with offset 8]")
	b.want(b.call("process.output", args{"id": "p1", "offset": 8}), false, "[running; go on with offset 8]")
	b.want(b.call("process.list", args{}), false, "p1", "running", "sleep 1000")
	b.want(b.call("process.kill", args{"id": "p1"}), false, "canceled", "SIGTERM")
	b.want(b.call("process.output", args{"id": "p1"}), false, "[ended; go on with offset 8]")
	b.want(b.call("process.list", args{}), false, "ended by SIGTERM")
	b.want(b.call("process.output", args{"id": "p9"}), true, "p9", "no such")
	b.want(b.call("process.kill", args{"id": "p9"}), true, "p9", "no such")
	b.want(b.call("process.start", args{"command": "true", "cwd": "../.."}), true, "leaves the workspace")
}

// lost is a machine that goes away while a command runs.
type lost struct{ machine.Machine }

func (lost) Exec(context.Context, machine.Command) (machine.Result, error) {
	return machine.Result{ExitCode: -1, Stdout: []byte("step 1\n"), Stderr: []byte("a warning\n")}, fmt.Errorf("%w: its container ended", machine.ErrUnavailable)
}

// The output of a command whose machine was lost is reported all the same.
func TestOutputOfALostMachine(t *testing.T) {
	b := newBench(t, WebConfig{})
	b.machine = lost{b.machine}
	b.want(b.call("shell.exec", args{"command": "make"}), true, "step 1\na warning\n", "its container ended")
}

// ended is a machine with one background process, which is over.
type ended struct{ machine.Machine }

func (ended) Output(context.Context, string, int64, int) (machine.Output, error) {
	return machine.Output{Data: []byte("done\n"), Next: 5}, nil
}

func (ended) Processes(context.Context) ([]machine.Process, error) {
	return []machine.Process{{ID: "p1", Script: "make", Result: &machine.Result{Changes: &machine.Changes{Added: []string{"a.out"}}}}}, nil
}

// "file changes are observed for spawned processes too": the model reads which files a background process has changed.
func TestChangesOfABackgroundProcess(t *testing.T) {
	b := newBench(t, WebConfig{})
	b.machine = ended{b.machine}
	b.want(b.call("process.output", args{"id": "p1"}), false, "done\n", "[ended; go on with offset 5]", "[files: a.out (new)]")
}

// The model is told which shell has run a command that failed, where it is not the one that people expect.
func TestShellIsTold(t *testing.T) {
	for _, c := range []struct {
		r    machine.Result
		want bool
	}{
		{machine.Result{ExitCode: 2, Shell: "/bin/sh"}, true},
		{machine.Result{ExitCode: 2, Shell: "/bin/bash"}, false},
		{machine.Result{ExitCode: 0, Shell: "/bin/sh"}, false},
		{machine.Result{ExitCode: 2}, false},
	} {
		if got := strings.Contains(Describe(c.r), "run by sh, as the image has no bash"); got != c.want {
			t.Errorf("%+v: %s", c.r, Describe(c.r))
		}
	}
}

// newcomer is a machine that has something to say about itself.
type newcomer struct{ machine.Machine }

func (newcomer) Exec(context.Context, machine.Command) (machine.Result, error) {
	return machine.Result{Stdout: []byte("out\n"), News: []string{"commands are run by /bin/bash", "service db was started again"}}, nil
}

func (newcomer) Start(context.Context, machine.Command) (machine.Process, error) {
	return machine.Process{ID: "p1", PID: 7, News: []string{"commands are run by /bin/bash"}}, nil
}

// "tell the model which": what a machine says about itself is in the result that the model reads.
func TestNewsAreTold(t *testing.T) {
	b := newBench(t, WebConfig{})
	b.machine = newcomer{b.machine}
	b.want(b.call("shell.exec", args{"command": "true"}), false, "out\n", "\n[exit code 0]\n[commands are run by /bin/bash]\n[service db was started again]")
	b.want(b.call("process.start", args{"command": "true"}), false, "started p1 with pid 7\n[commands are run by /bin/bash]")
}
