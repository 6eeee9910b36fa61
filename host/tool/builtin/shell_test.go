package builtin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/machine/machinetest"
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

func TestShellExecTellsPeopleTheVerdict(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	b := newBench(t, WebConfig{})
	var r machine.Result
	if err := json.Unmarshal(b.call("shell.exec", args{"command": "echo secret; exit 4"}).Verdict, &r); err != nil {
		t.Fatal(err)
	}
	if r.ExitCode != 4 || r.Wall <= 0 || len(r.Stdout) > 0 {
		t.Errorf("verdict %+v, want exit code 4, a time and no output", r)
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
