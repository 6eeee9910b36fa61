package sandbox_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// helped returns a manager, and the specification of runs with helpers on an image.
func helped(t *testing.T, image func(sandboxtest.Host, testing.TB) string) (*sandbox.Manager, spec.Spec) {
	t.Helper()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	config.Spec.Image = image(h, t)
	wanted := spec.CodeSpec(config.Spec)
	wanted.Helpers = true
	return m, wanted
}

// echo answers with what it was asked, and with a file where it is asked for one.
func echo(_ context.Context, c sandbox.HelperCall) sandbox.HelperAnswer {
	var args struct{ Fail, File string }
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return sandbox.HelperAnswer{Text: err.Error(), IsError: true}
	}
	a := sandbox.HelperAnswer{Text: c.Tool + " " + string(c.Args), IsError: args.Fail != ""}
	if args.File != "" {
		a.Files = []sandbox.HelperFile{{Name: args.File, Data: []byte("of the host")}}
	}
	return a
}

func TestHelpersOfPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		language string
		image    func(sandboxtest.Host, testing.TB) string
		program  string
	}{
		{"python", sandboxtest.Host.Python, `
import flynn, beside
print(flynn.call("web.fetch", url="https://example.com/é"))
try:
    flynn.call("shell.exec", Fail="yes")
except flynn.Error as e:
    print("refused:", e)
try:
    flynn.call("no such tool")
except flynn.Error as e:
    print("refused" in str(e))
text = flynn.call("pics.get", File="../../a.png")
print(text.splitlines()[-1], open("in/calls/3/a.png").read(), beside.word)
`},
		{"node", sandboxtest.Host.Node, `
const flynn = require("flynn"), fs = require("fs"), beside = require("./beside.js");
console.log(flynn.call("web.fetch", { url: "https://example.com/é" }));
try { flynn.call("shell.exec", { Fail: "yes" }) } catch (e) { console.log("refused:", e.message, e instanceof flynn.Failure ? "" : "?") }
try { flynn.call("no such tool") } catch (e) { console.log(e.message.includes("refused")) }
const text = flynn.call("pics.get", { File: "../../a.png" });
console.log(text.split("\n").at(-1), fs.readFileSync("in/calls/3/a.png", "utf8"), beside.word);
`},
	} {
		t.Run(c.language, func(t *testing.T) {
			m, spec := helped(t, c.image)
			r := runCode(t, m, sandbox.Code{
				Spec: spec, Language: c.language, Program: []byte(c.program), Helpers: echo,
				Files: map[string][]byte{"beside.py": []byte("word = 'beside'"), "beside.js": []byte("exports.word = 'beside'")},
			})
			out := strings.ToLower(strings.NewReplacer(": ", ":", " \n", "\n", `\u00e9`, "é").Replace(string(r.Stdout)))
			want := "web.fetch {\"url\":\"https://example.com/é\"}\nrefused:shell.exec {\"fail\":\"yes\"}\ntrue\n[file:in/calls/3/a.png] of the host beside\n"
			if r.ExitCode != 0 || out != want {
				t.Errorf("exit %d\n%s\nwant\n%s\nstderr %s", r.ExitCode, out, want, r.Stderr)
			}
		})
	}
}

// A program's clock stands still while a person thinks, and only then.
func TestHelpersAndTheClock(t *testing.T) {
	t.Parallel()
	m, spec := helped(t, sandboxtest.Host.Python)
	run := func(answer sandbox.Helpers) sandbox.CodeResult {
		return runCode(t, m, sandbox.Code{
			Spec: spec, Language: "python", Timeout: 5 * time.Second, Helpers: answer,
			Program: []byte("import flynn\nprint(flynn.call('a'), flush=True)\nprint(flynn.call('b'))"),
		})
	}
	wait := func(ctx context.Context, d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	t.Run("paused", func(t *testing.T) {
		r := run(func(ctx context.Context, c sandbox.HelperCall) sandbox.HelperAnswer {
			resume := c.Pause()
			defer resume()
			wait(ctx, 3*time.Second)
			return sandbox.HelperAnswer{Text: "yes"}
		})
		if r.ExitCode != 0 || string(r.Stdout) != "yes\nyes\n" || r.TimedOut {
			t.Errorf("result %+v, stderr %s", r.Result, r.Stderr)
		}
	})
	t.Run("not paused", func(t *testing.T) {
		var left atomic.Bool
		r := run(func(ctx context.Context, c sandbox.HelperCall) sandbox.HelperAnswer {
			wait(ctx, time.Minute)
			left.Store(true)
			return sandbox.HelperAnswer{Text: "late"}
		})
		if !r.TimedOut || r.Canceled || r.Wall > 50*time.Second || !left.Load() {
			t.Errorf("result %+v, the helper has left: %v", r.Result, left.Load())
		}
	})
	t.Run("runaway", func(t *testing.T) {
		const limit = time.Second
		r := runCode(t, m, sandbox.Code{Spec: spec, Language: "python", Timeout: limit, Helpers: echo, Program: []byte("while True: pass")})
		if !r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 || r.Wall < limit || r.Wall > time.Minute {
			t.Errorf("result %+v", r.Result)
		}
	})
}

// No message of a program to the host's end of its helpers harms the host or the next call.
func TestHelpersAreHostileInput(t *testing.T) {
	m, spec := helped(t, sandboxtest.Host.Python)
	var asked atomic.Int64
	r := runCode(t, m, sandbox.Code{Spec: spec, Language: "python", Helpers: func(ctx context.Context, c sandbox.HelperCall) sandbox.HelperAnswer {
		asked.Add(1)
		return echo(ctx, c)
	}, Program: []byte(`
import socket, struct, json, threading, flynn
def raw(*packets):
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0flynn-bridge")
    for p in packets:
        s.sendall(p)
    s.shutdown(socket.SHUT_WR)
    s.settimeout(5)
    got = b""
    try:
        while chunk := s.recv(65536):
            got += chunk
    except OSError:
        pass
    return got
def packet(kind, body, size=None):
    return kind + struct.pack(">I", len(body) if size is None else size) + body
for p in [b"", b"c", packet(b"c", b"", 0xffffffff), packet(b"z", b"x"), packet(b"c", b"{}"), packet(b"c", b"[" * 1000),
          packet(b"c", json.dumps({"name": "Zmx5bm4tY2FsbA==", "argv": []}).encode()),
          packet(b"c", json.dumps({"name": "c2g=", "argv": ["LWM="], "dir": "Lw=="}).encode())]:
    raw(p)
try:
    flynn.call("big", text="x" * (2 << 20))
except flynn.Error as e:
    print(e)
results = []
threads = [threading.Thread(target=lambda i=i: results.append(flynn.call("n", i=i))) for i in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(set(results)))
`)})
	if r.ExitCode != 0 || !strings.HasSuffix(string(r.Stdout), "\n20\n") || !strings.Contains(string(r.Stdout), "are more than 1048576") || asked.Load() != 20 {
		t.Errorf("asked %d times\n%s\n%s", asked.Load(), r.Stdout, r.Stderr)
	}
}

// A run without helpers has nobody to ask, also in a container that offers them, and what was left of one run's is no other's.
func TestHelpersAreOfOneRun(t *testing.T) {
	t.Parallel()
	m, spec := helped(t, sandboxtest.Host.Python)
	r := runCode(t, m, sandbox.Code{Spec: spec, Language: "sh", Program: []byte("echo '{}' | /.flynn/bin/flynn-call x")})
	if r.ExitCode != 125 || !strings.Contains(string(r.Stderr), "has no helper functions") {
		t.Errorf("exit %d, %s", r.ExitCode, r.Stderr)
	}
	spec.Helpers = false
	if _, err := m.RunCode(t.Context(), sandbox.Code{Spec: spec, Language: "sh", Program: []byte("x"), Helpers: echo}); err == nil {
		t.Error("helpers without a container that offers them were taken")
	}
}

func TestCodeCountsWhatHasNoRoute(t *testing.T) {
	m, spec := helped(t, sandboxtest.Host.Python)
	for _, c := range []struct {
		name, program string
		tries         int64
	}{
		{"nothing", "print(1)", 0},
		{"its own loopback", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))", 0},
		{"three", `
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try: socket.socket(socket.AF_INET, kind).connect(("192.0.2.1", 80))
    except OSError: pass
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 80))
except OSError: pass
`, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runCode(t, m, sandbox.Code{Spec: spec, Language: "python", Program: []byte(c.program)})
			if r.ExitCode != 0 || r.NoRoutes != c.tries {
				t.Errorf("%d tries, want %d; stderr %s", r.NoRoutes, c.tries, r.Stderr)
			}
		})
	}
}
