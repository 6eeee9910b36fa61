package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
)

// talker is a machine whose one process says what the test has it say.
type talker struct {
	machine.Machine
	stdout, stderr string
	result         machine.Result
	hangs          bool // until it is closed
	got            machine.Command
	stdin          strings.Builder
	closed         chan struct{}
}

func (m *talker) Name() string { return "box" }

func (m *talker) Exec(context.Context, machine.Command) (machine.Result, error) {
	return machine.Result{}, nil
}

func (m *talker) WriteFile(context.Context, string, []byte, fs.FileMode) error { return nil }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (m *talker) Talk(_ context.Context, cmd machine.Command) (*machine.Live, error) {
	m.got, m.closed = cmd, make(chan struct{})
	stdout := io.Reader(strings.NewReader(m.stdout))
	if m.hangs {
		r, w := io.Pipe()
		go func() { <-m.closed; w.Close() }()
		stdout = io.MultiReader(stdout, r)
	}
	closed := false
	return &machine.Live{
		Stdin: nopCloser{&m.stdin}, Stdout: stdout, Stderr: strings.NewReader(m.stderr),
		Wait: func(context.Context) (machine.Result, error) { return m.result, nil },
		Close: func() error {
			if !closed {
				closed = true
				close(m.closed)
			}
			return nil
		},
	}, nil
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine talker
		resume  bool
		want    string
		isError bool
		unknown bool
	}{
		{"an answer", talker{stdout: `{"type":"end","result":"yes"}` + "\n"}, false, "yes", false, false},
		{"no answer", talker{stdout: "{}\n"}, false, "ended without an answer", false, false},
		{"an exit code", talker{stderr: "no space", result: machine.Result{ExitCode: 3}}, false, "failed with exit code 3:\nno space", true, false},
		{"no such program", talker{result: machine.Result{ExitCode: 127}}, false, "image has no such program", true, false},
		{"time", talker{result: machine.Result{ExitCode: -1, Signal: "SIGKILL", TimedOut: true, Kill: &machine.Kill{Rung: "kill"}}}, false,
			"took longer than 1m0s and was ended with everything that it had started (kill, 0 processes left)", true, false},
		{"memory", talker{result: machine.Result{ExitCode: -1, Signal: "SIGKILL", OOM: true}}, false, "ran out of memory", true, false},
		{"an unknown session", talker{stderr: "sorry: no such session", result: machine.Result{ExitCode: 1}}, true, "no such session", true, true},
		{"an unknown session that was not asked for", talker{stderr: "no such session", result: machine.Result{ExitCode: 1}}, false, "no such", true, false},
		{"an answer about sessions", talker{stdout: `{"type":"end","result":"no such session"}` + "\n"}, true, "no such session", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := sound()
			config.Unknown = []string{"no such session"}
			run, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			args, _ := json.Marshal(Args{Prompt: "the message", Session: "s1", Resume: c.resume})
			got, err := run.Run(t.Context(), tool.Call{Args: args, Machine: &c.machine, Say: func(string) {}, Progress: func([]byte) {}})
			var record Record
			if err == nil {
				err = json.Unmarshal(got.Record, &record)
			}
			if err != nil || got.IsError != c.isError || !strings.Contains(got.Text, c.want) || record.Unknown != c.unknown {
				t.Errorf("got %+v, record %+v, %v", got, record, err)
			}
			if wanted := "s1"; !c.unknown && record.Session != wanted || c.unknown && record.Session != "" {
				t.Errorf("session %q", record.Session)
			}
			if c.machine.stdin.String() != "the message" || c.machine.got.Env["HOME"] != "/state" || !c.machine.got.KeepHome || c.machine.got.Timeout != time.Minute {
				t.Errorf("it got %q, %+v", c.machine.stdin.String(), c.machine.got)
			}
			if strings.Contains(c.machine.got.Script, "the message") {
				t.Errorf("the message is in the command line: %s", c.machine.got.Script)
			}
		})
	}
}

func TestBadCalls(t *testing.T) {
	config := sound()
	run, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []Args{{Session: "-rf"}, {Session: "a b"}, {Resume: true}, {Session: strings.Repeat("x", 200)}} {
		raw, _ := json.Marshal(args)
		m := &talker{}
		if got, err := run.Run(t.Context(), tool.Call{Args: raw, Machine: m}); err != nil || !got.IsError || m.got.Script != "" {
			t.Errorf("%+v: %+v, %v", args, got, err)
		}
	}
	config.Missing = "it has no key"
	run, err = New(config)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := run.Run(t.Context(), tool.Call{Args: json.RawMessage(`{"prompt":"x"}`), Machine: &talker{}}); got.Text != "agent cannot run: it has no key" {
		t.Errorf("got %+v", got)
	}
}

// A machine's notices are for the host and not part of the answer.
func TestMachineIsGone(t *testing.T) {
	run, err := New(sound())
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Run(t.Context(), tool.Call{Args: json.RawMessage(`{"prompt":"x"}`), Machine: gone{}, Say: func(string) {}})
	if !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

type gone struct{ machine.Machine }

func (gone) Talk(context.Context, machine.Command) (*machine.Live, error) {
	return nil, machine.ErrUnavailable
}
