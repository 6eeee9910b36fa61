package code_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// rig is a tool whose programs are functions.
type rig struct {
	run      func(sandbox.Code) sandbox.CodeResult
	attached map[string][]byte
	helper   tool.Helper
	violated []string
	fails    error // what a run returns besides its result
}

func (r *rig) tool() tool.Tool {
	wanted := spec.Spec{Image: "x", Helpers: true, PidsLimit: 100, MemoryBytes: 512 << 20, DiskBytes: 1 << 20}.WithDefaults()
	return code.New(code.Config{
		Languages: map[string]spec.Spec{"python": wanted, "javascript": wanted},
		Sandboxes: r, Attachments: r, Media: r,
		Events: event.Only(func(v code.Violated) { r.violated = append(r.violated, v.Agent+" "+string(v.Kind)) }),
	})
}

// RunCode implements code.Sandboxes.
func (r *rig) RunCode(_ context.Context, c sandbox.Code) (sandbox.CodeResult, error) {
	return r.run(c), r.fails
}

// Attached implements code.Attachments.
func (r *rig) Attached(context.Context, message.SessionKey) (map[string][]byte, int, error) {
	return r.attached, 2, nil
}

// Keep implements code.Media.
func (*rig) Keep(_ context.Context, _ message.SenderKey, name string, body io.Reader) (message.Attachment, error) {
	data, err := io.ReadAll(body)
	if bytes.Contains(data, []byte("too much")) {
		return message.Attachment{}, fmt.Errorf("%w: no room", builtin.ErrNotKept)
	}
	return message.Attachment{Digest: "d-" + name, Name: name, Type: "text/plain", Size: int64(len(data))}, err
}

// Open implements code.Media.
func (*rig) Open(digest string) (io.ReadCloser, error) {
	if digest != "picture" {
		return nil, errors.New("no such media")
	}
	return io.NopCloser(strings.NewReader("png")), nil
}

// call goes the way that a model's call goes.
func (r *rig) call(t *testing.T, args string) tool.Result {
	t.Helper()
	made := r.tool()
	if err := tool.NewRegistry().Register(made); err != nil {
		t.Fatal(err)
	}
	result, err := made.Run(t.Context(), tool.Call{Args: json.RawMessage(args), Agent: "a", Session: "irc:ann:a", Progress: func([]byte) {}, Helper: r.helper})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func exited(code int, stdout, stderr string) machine.Result {
	return machine.Result{ExitCode: code, Stdout: []byte(stdout), Stderr: []byte(stderr)}
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name       string
		result     sandbox.CodeResult
		text       string
		failed     bool
		violations []string
	}{
		{"fine", sandbox.CodeResult{Result: exited(0, "4\n", "")}, "4\n[exit code 0]", false, nil},
		{"both streams", sandbox.CodeResult{Result: exited(1, "4", "oops")}, "4\nstderr:\noops\n[exit code 1]", true, nil},
		{"not UTF-8", sandbox.CodeResult{Result: exited(0, "a\xffb", "")}, "a\uFFFDb\n[exit code 0]", false, nil},
		{"network", sandbox.CodeResult{Result: exited(1, "", ""), NoRoutes: 3}, "[exit code 1]\n[the program tried to reach a network; there is none]", true, []string{"network"}},
		{"time", sandbox.CodeResult{Result: machine.Result{ExitCode: -1, Signal: "SIGKILL", TimedOut: true, Wall: time.Second}}, "[timed out after 1s, ended by SIGKILL]", true, []string{"time"}},
		{"memory", sandbox.CodeResult{Result: machine.Result{ExitCode: -1, Signal: "SIGKILL", OOM: true}}, "[ended by SIGKILL, out of memory]", true, []string{"memory"}},
		{"forks", sandbox.CodeResult{Result: machine.Result{PidsHit: true}}, "[exit code 0, too many processes]", false, []string{"pids"}},
		{"disk", sandbox.CodeResult{Result: machine.Result{ExitCode: -1, Signal: "SIGKILL", DiskHit: true}}, "[ended by SIGKILL, the workspace has outgrown its disk limit]", true, []string{"disk"}},
		{"output", sandbox.CodeResult{Result: machine.Result{Dropped: 5}}, "[exit code 0, 5 bytes of output dropped]", false, []string{"output"}},
		{"a file of the host", sandbox.CodeResult{Result: exited(1, "", "PermissionError: [Errno 13] Permission denied: '/etc/shadow'")}, "stderr:\nPermissionError: [Errno 13] Permission denied: '/etc/shadow'\n[exit code 1]", true, []string{"files"}},
		{"the same in JavaScript", sandbox.CodeResult{Result: exited(1, "", "Error: ENOENT: no such file or directory, open '/root/x'")}, "stderr:\nError: ENOENT: no such file or directory, open '/root/x'\n[exit code 1]", true, []string{"files"}},
		{"a file of its own", sandbox.CodeResult{Result: exited(1, "", "FileNotFoundError: [Errno 2] No such file or directory: '/workspace/x'")}, "stderr:\nFileNotFoundError: [Errno 2] No such file or directory: '/workspace/x'\n[exit code 1]", true, nil},
		{"files", sandbox.CodeResult{Result: exited(0, "", ""), Left: 1, Files: map[string][]byte{"a/b.txt": []byte("x"), "z": []byte("too much")}}, "[exit code 0]\n" +
			"[out/a/b.txt (text/plain, 1 bytes) goes with your answer]\n[z does not go with your answer: the file cannot be attached: no room]\n" +
			"[1 entries of out were not brought back: too many, too large, or no files]", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &rig{run: func(sandbox.Code) sandbox.CodeResult { return c.result }}
			got := r.call(t, `{"language":"python","program":"1"}`)
			want := c.text + "\n[2 attachments were not given to the program: too many, or too large]"
			if got.Text != want || got.IsError != c.failed {
				t.Errorf("text is\n%s\nwant\n%s\nfailed %v", got.Text, want, got.IsError)
			}
			var kinds []string
			for _, v := range got.Violations {
				kind, _, _ := strings.Cut(v, ":")
				kinds = append(kinds, kind)
			}
			if !slices.Equal(kinds, c.violations) || len(r.violated) != len(kinds) {
				t.Errorf("violations %q, told %q, want %q", got.Violations, r.violated, c.violations)
			}
			if !json.Valid(got.Record) || bytes.Contains(got.Record, []byte("stdout")) || !slices.Equal(got.Labels, []string{"shell:code"}) {
				t.Errorf("record %s, labels %q", got.Record, got.Labels)
			}
		})
	}
}

func TestProgramsGetFiles(t *testing.T) {
	r := &rig{attached: map[string][]byte{"a.csv": []byte("1")}}
	r.run = func(c sandbox.Code) sandbox.CodeResult {
		if got := slices.Sorted(maps.Keys(c.Files)); !slices.Equal(got, []string{"in/a.csv", "lib.js"}) || c.Language != "node" || c.Session != "irc:ann:a" {
			t.Errorf("%q of %q gets %q", c.Language, c.Session, got)
		}
		return sandbox.CodeResult{}
	}
	r.call(t, `{"language":"javascript","program":"1","files":{"lib.js":"2"}}`)
}

// The run has the labels and attachments of its program's calls.
func TestHelpersOfARun(t *testing.T) {
	r := &rig{helper: func(_ context.Context, name string, _ json.RawMessage, _ func() func()) tool.Result {
		return tool.Result{
			Text: "of " + name, Labels: []string{"web:example.com"}, Attachments: []message.Attachment{{Digest: "d", Name: "n"}},
			Media: []tool.Media{{SHA256: "picture", Name: "../.x y.png"}, {SHA256: "gone", Name: "g"}},
		}
	}}
	r.run = func(c sandbox.Code) sandbox.CodeResult {
		a := c.Helpers(t.Context(), sandbox.HelperCall{Tool: "pics.get"})
		if a.IsError || a.Text != "of pics.get\n[file \"g\" is not available]" || len(a.Files) != 1 || a.Files[0].Name != "_.x_y.png" || string(a.Files[0].Data) != "png" {
			t.Errorf("answer %+v", a)
		}
		return sandbox.CodeResult{}
	}
	got := r.call(t, `{"language":"python","program":"1"}`)
	if !slices.Equal(got.Labels, []string{"shell:code", "web:example.com"}) || len(got.Attachments) != 1 || !bytes.Contains(got.Record, []byte(`"helper_calls":1`)) {
		t.Errorf("result %+v, record %s", got, got.Record)
	}
}

// A sender who has as many containers as he may reads so, and the host does not seem to be broken.
func TestNoRoomIsSaid(t *testing.T) {
	r := &rig{
		run:   func(sandbox.Code) sandbox.CodeResult { return sandbox.CodeResult{} },
		fails: fmt.Errorf("run: %w", quota.Refusal("you have 8 sandboxes")),
	}
	if got := r.call(t, `{"language":"python","program":"1"}`); !got.IsError || got.Text != "you have 8 sandboxes" {
		t.Errorf("got %+v", got)
	}
}

// One line says how many files an answer leaves out.
func TestManyFilesAreToldTogether(t *testing.T) {
	files := map[string][]byte{}
	for i := range 60 {
		files[fmt.Sprintf("f%02d", i)] = []byte("x")
	}
	r := &rig{run: func(sandbox.Code) sandbox.CodeResult {
		return sandbox.CodeResult{Result: exited(0, "", ""), Files: files}
	}}
	got := r.call(t, `{"language":"python","program":"1"}`)
	if n := strings.Count(got.Text, "do not go with your answer") + strings.Count(got.Text, "does not go with your answer"); n != 1 {
		t.Errorf("%d lines about what is left out:\n%s", n, got.Text)
	}
	if !strings.Contains(got.Text, " and so on]") {
		t.Errorf("text %s", got.Text)
	}
}
