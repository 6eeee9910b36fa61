package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// coder returns a manager whose code runs have Python, with a pool of containers for them.
func coder(t testing.TB, warm int) (sandboxtest.Host, *sandbox.Manager, sandbox.Config) {
	t.Helper()
	h := sandboxtest.Engine(t)
	python := h.Python(t)
	m, config := h.Manager(t, func(c *sandbox.Config) {
		c.Spec.Image = python
		keepWarm(warm)(c)
		c.Pools[0].Spec = spec.CodeSpec(c.Spec)
	})
	if warm > 0 {
		runManager(t, m)
		awaitReady(t, m, warm)
	}
	return h, m, config
}

func runCode(t testing.TB, m *sandbox.Manager, c sandbox.Code) sandbox.CodeResult {
	t.Helper()
	r, err := m.RunCode(context.WithoutCancel(t.Context()), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const mediumProgram = `
import collections, csv, datetime, hashlib, io, json, pathlib, random, re, sqlite3, statistics, sys
rows = list(csv.DictReader(io.StringIO(pathlib.Path("data/sales.csv").read_text())))
by = collections.defaultdict(list)
for row in rows:
    assert re.fullmatch(r"[a-z]+", row["region"])
    by[row["region"]].append(float(row["amount"]))
db = sqlite3.connect(":memory:")
db.execute("create table s (region text, amount real)")
db.executemany("insert into s values (?, ?)", [(r["region"], float(r["amount"])) for r in rows])
random.seed(1)
numbers = sorted(random.random() for _ in range(50_000))
report = {
    "mean": {k: round(statistics.mean(v), 2) for k, v in sorted(by.items())},
    "median": statistics.median(x for v in by.values() for x in v),
    "total": db.execute("select sum(amount) from s").fetchone()[0],
    "sorted": numbers == sorted(numbers, reverse=True)[::-1],
    "digest": hashlib.sha256(sys.stdin.buffer.read()).hexdigest()[:8],
    "day": datetime.date(2024, 2, 29).isoformat(),
}
print(json.dumps(report, sort_keys=True))
pathlib.Path("out/deep/er").mkdir(parents=True)
pathlib.Path("out/report.json").write_text(json.dumps(report))
pathlib.Path("out/deep/er/raw").write_bytes(bytes(range(256)))
`

// The four founding cases of code agents: a simple and a medium program pass, the network and the host's files are out
// of reach.
func TestCodeFoundingCases(t *testing.T) {
	t.Parallel()
	_, m, _ := coder(t, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the host's own"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Run("simple", func(t *testing.T) {
		r := runCode(t, m, sandbox.Code{Language: "python", Program: []byte("print('hello', 6 * 7)")})
		if r.ExitCode != 0 || string(r.Stdout) != "hello 42\n" || len(r.Stderr) > 0 || r.Wall <= 0 {
			t.Errorf("result %+v, stderr %s", r.Result, r.Stderr)
		}
	})
	t.Run("medium", func(t *testing.T) {
		r := runCode(t, m, sandbox.Code{
			Language: "python", Program: []byte(mediumProgram), Stdin: bytes.Repeat([]byte("x"), 100_000),
			Files: map[string][]byte{"data/sales.csv": []byte("region,amount\nnorth,10\nsouth,5.5\nnorth,20\n")},
		})
		const want = `{"day": "2024-02-29", "digest": "d69e6898", "mean": {"north": 15.0, "south": 5.5}, "median": 10.0, "sorted": true, "total": 35.5}`
		if r.ExitCode != 0 || string(r.Stdout) != want+"\n" {
			t.Errorf("result %+v\nstdout %s\nstderr %s", r.Result, r.Stdout, r.Stderr)
		}
		if len(r.Files) != 2 || !bytes.Contains(r.Files["report.json"], []byte(`"total": 35.5`)) || len(r.Files["deep/er/raw"]) != 256 || r.Left != 0 {
			t.Errorf("files %q, %d left", slices.Collect(maps.Keys(r.Files)), r.Left)
		}
	})
	t.Run("network", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		r := runCode(t, m, sandbox.Code{Language: "python", Program: fmt.Appendf(nil, `
import socket, sys
socket.setdefaulttimeout(2)
for target in [("127.0.0.1", %d), ("10.0.0.1", 80), ("169.254.169.254", 80), ("1.1.1.1", 53), ("example.com", 443)]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_INET, kind)
            s.connect(target)
            if kind == socket.SOCK_STREAM or target[0] != "127.0.0.1": # a datagram to itself is no network
                print("reached", target, kind)
        except OSError as e:
            print(type(e).__name__, file=sys.stderr)
import urllib.request
urllib.request.urlopen("http://example.com/")
`, listener.Addr().(*net.TCPAddr).Port)})
		if r.ExitCode == 0 || len(r.Stdout) > 0 || !bytes.Contains(r.Stderr, []byte("URLError")) {
			t.Errorf("result %+v\nstdout %s\nstderr %s", r.Result, r.Stdout, r.Stderr)
		}
	})
	t.Run("host file", func(t *testing.T) {
		r := runCode(t, m, sandbox.Code{Language: "python", Program: fmt.Appendf(nil, `
import os
for path in [%q, "/proc/1/root" + %q, "/etc/shadow", "/root/.ssh/id_rsa", "/var/run/docker.sock", "/proc/1/environ", "/proc/kcore"]:
    try:
        print("read", path, open(path, "rb").read(1))
    except OSError:
        pass
for path in ["/usr/bin/python3", "/etc/passwd", "/.flynn-sandboxd", "/proc/sys/kernel/core_pattern"]:
    try:
        os.open(path, os.O_WRONLY)
        print("opened", path)
    except OSError:
        pass
print(os.getuid() != 0, sorted(os.listdir(".")))
open(%q)
`, secret, secret, secret)})
		if r.ExitCode != 1 || string(r.Stdout) != "True ['out']\n" || !bytes.Contains(r.Stderr, []byte("FileNotFoundError")) {
			t.Errorf("result %+v\nstdout %s\nstderr %s", r.Result, r.Stdout, r.Stderr)
		}
	})
}

// Programs that take all they can get are cut, and the next one finds nothing of them.
func TestCodeBombs(t *testing.T) {
	t.Parallel()
	h, m, config := coder(t, 1)
	t.Run("fork bomb", func(t *testing.T) {
		r := runCode(t, m, sandbox.Code{Language: "python", Timeout: 5 * time.Second, Program: []byte(`
import os
if os.fork() == 0:
    os.setsid()
while True:
    try:
        os.fork()
    except OSError:
        pass
`)})
		if !r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 || !r.PidsHit {
			t.Errorf("result %+v, kill %+v", r.Result, r.Kill)
		}
	})
	t.Run("memory bomb", func(t *testing.T) {
		r := runCode(t, m, sandbox.Code{Language: "python", Program: []byte("a = []\nwhile True: a.append(bytearray(b'x' * (16 << 20)))")})
		if r.Signal != "SIGKILL" || !r.OOM || r.TimedOut {
			t.Errorf("result %+v, stderr %s", r.Result, r.Stderr)
		}
	})
	t.Run("runaway", func(t *testing.T) {
		const limit = time.Second
		r := runCode(t, m, sandbox.Code{Language: "python", Timeout: limit, Program: []byte("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass")})
		if !r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 || r.Wall < limit || r.Wall > limit+time.Minute {
			t.Errorf("result %+v, kill %+v", r.Result, r.Kill)
		}
	})
	t.Run("output flood", func(t *testing.T) {
		r := runCode(t, m, sandbox.Code{Language: "python", MaxOutput: 1000, Program: []byte("import sys\nfor _ in range(100): sys.stdout.write('x' * 100_000)")})
		if r.ExitCode != 0 || len(r.Stdout) != 1000 || r.Dropped != 10_000_000-1000 {
			t.Errorf("%d bytes, result %+v", len(r.Stdout), r.Dropped)
		}
	})
	awaitNothing(t, h, m, config)
}

// awaitNothing waits until only the pool is left of everything.
func awaitNothing(t testing.TB, h sandboxtest.Host, m *sandbox.Manager, config sandbox.Config) {
	t.Helper()
	ready := m.Stats().Pool.Wanted
	eventually(t, "only the pool is left", func() bool {
		slots, err := filepath.Glob(filepath.Join(config.WorkspaceRoot, ".pool-*", "*"))
		return err == nil && len(slots) == ready && m.Stats().Pool.Ready == ready && len(containers(t, h, config.Instance)) == ready
	})
}

// No run finds anything of another, be it from the pool or not.
func TestCodeRunsAreApart(t *testing.T) {
	t.Parallel()
	for _, warm := range []int{0, 2} {
		t.Run(fmt.Sprint("pool of ", warm), func(t *testing.T) {
			h, m, config := coder(t, warm)
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					r, err := m.RunCode(t.Context(), sandbox.Code{
						Language: "sh", Program: fmt.Appendf(nil, "ls -A . /tmp out; id -u; echo %d > f; echo x > /tmp/f; echo %d > out/n; touch out/empty; set -- /proc/[0-9]*; echo $#", i, i),
					})
					if err != nil || string(r.Stdout) != ".:\nout\n\n/tmp:\n\nout:\n1000\n3\n" && os.Getuid() == 0 {
						t.Errorf("run %d: %q, stderr %s (%v)", i, r.Stdout, r.Stderr, err)
					}
					if got := string(r.Files["n"]); got != fmt.Sprintln(i) || len(r.Files) != 2 {
						t.Errorf("run %d brought %q", i, r.Files)
					}
				})
			}
			all.Wait()
			awaitNothing(t, h, m, config)
		})
	}
}

// "the program mounted read-only": a program cannot change what it is, nor what lies beside it.
func TestCodeIsHeldReadOnly(t *testing.T) {
	_, m, _ := coder(t, 0)
	const program = `p=$0; d=$(dirname $0)
for try in 'echo x >> $p' 'echo x > $p' 'rm -f $p' 'mv $p $d/other' 'chmod 777 $p' 'chmod 777 $d' 'ln -sf /etc/passwd $p' 'touch $d/new' 'mkdir $d/sub' 'rm -f $d/data/f' 'echo x > $d/data/f' \
	'mv $d /tmp/held' 'rm -rf $d' 'mount -t tmpfs none $d' 'dd if=/dev/zero of=$p' 'truncate -s 0 $p'; do
	(eval "$try") 2>/dev/null && echo "done: $try"
done
cat $d/data/f data/f; head -n 1 $p; stat -c %U:%a $p`
	r := runCode(t, m, sandbox.Code{Language: "sh", Program: []byte(program), Files: map[string][]byte{"data/f": []byte("text\n")}})
	if want := "text\ntext\np=$0; d=$(dirname $0)\nroot:444\n"; string(r.Stdout) != want {
		t.Errorf("got %q, %s", r.Stdout, r.Stderr)
	}
	for name, c := range map[string]sandbox.Code{
		"python": {Language: "python", Program: []byte("import os\nfor f in (lambda: open(__file__, 'w'), lambda: os.remove(__file__), lambda: os.rename(__file__, 'x')):\n    try:\n        f(); print('done')\n    except OSError as e:\n        print(e.errno in (1, 13, 16, 18, 30))")},
	} {
		if r := runCode(t, m, c); string(r.Stdout) != "True\nTrue\nTrue\n" {
			t.Errorf("%s: %q, %s", name, r.Stdout, r.Stderr)
		}
	}
}

func TestCodeOutputIsBounded(t *testing.T) {
	t.Parallel()
	_, m, _ := coder(t, 0)
	for _, c := range []struct {
		name, program string
		files, left   int
	}{
		{"too many", "cd out; for i in $(seq 70); do echo $i > f$i; done", 64, 6},
		{"too large", "cd out; head -c 17000000 /dev/zero > large; echo x > small", 1, 1},
		{"too large together", "cd out; for i in a b c; do head -c 8000000 /dev/zero > $i; done", 2, 1},
		{"sparse", "truncate -s 1024G out/f", 0, 1},
		{"no files", "cd out; ln -s /etc/passwd l; mkfifo p; ln -s ../main.sh m", 0, 3},
		{"too deep", "cd out; for i in $(seq 12); do mkdir d; cd d; done; echo x > f", 0, 1},
		{"too many folders", "cd out; for i in $(seq 100); do mkdir d$i; done", 0, 37},
		{"removed", "rmdir out", 0, 0},
		{"a file", "rmdir out; echo x > out", 0, 1},
		{"a link out of it", "rmdir out; ln -s /etc out", 0, 1},
		{"a loop", "rmdir out; ln -s out out", 0, 1},
		{"unreadable", "echo x > out/f; chmod 0 out/f", 0, 1},
		{"unreadable folder", "echo x > out/f; chmod 0 out", 0, 1},
		{"gone meanwhile", "echo x > out/f; exit 3", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runCode(t, m, sandbox.Code{Language: "sh", Program: []byte(c.program)})
			if len(r.Files) != c.files || r.Left != c.left {
				t.Errorf("%d files, %d left, want %d and %d; stderr %s", len(r.Files), r.Left, c.files, c.left, r.Stderr)
			}
		})
	}
}

func TestCodeByArgv(t *testing.T) {
	_, m, _ := coder(t, 0)
	r := runCode(t, m, sandbox.Code{Argv: []string{"sh", "-c", `echo "$0|$1|$#"; cat "$2"`, "it's", "a b"}, Program: []byte("the program"), Stdin: []byte("x")})
	if string(r.Stdout) != "it's|a b|2\nthe program" {
		t.Errorf("stdout %q, stderr %s", r.Stdout, r.Stderr)
	}
	r = runCode(t, m, sandbox.Code{Argv: []string{"cat"}, Stdin: []byte("in")})
	if string(r.Stdout) != "in" {
		t.Errorf("stdout %q, stderr %s", r.Stdout, r.Stderr)
	}
	r = runCode(t, m, sandbox.Code{Argv: []string{"nosuch"}})
	if r.ExitCode != 127 {
		t.Errorf("result %+v", r.Result)
	}
}

func TestCodeRefusals(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	program := []byte("x")
	many := map[string][]byte{}
	for i := range 65 {
		many[fmt.Sprint(i)] = nil
	}
	for want, c := range map[string]sandbox.Code{
		`"cobol" is not one of node, python, sh`: {Language: "cobol", Program: program},
		`"" is not one of`:                       {Program: program},
		"leave one out":                          {Language: "sh", Argv: []string{"sh"}, Program: program},
		"code is empty":                          {Language: "sh"},
		`file "../f"`:                            {Language: "sh", Program: program, Files: map[string][]byte{"../f": nil}},
		`file "/f"`:                              {Language: "sh", Program: program, Files: map[string][]byte{"/f": nil}},
		`file "main.sh"`:                         {Language: "sh", Program: program, Files: map[string][]byte{"main.sh": nil}},
		`file "out/f"`:                           {Language: "sh", Program: program, Files: map[string][]byte{"out/f": nil}},
		`file "."`:                               {Language: "sh", Program: program, Files: map[string][]byte{".": nil}},
		"65 files":                               {Language: "sh", Program: program, Files: many},
		"are more than 16777216":                 {Language: "sh", Program: make([]byte, 17<<20)},
		"memory_limit":                           {Language: "sh", Program: program, Spec: spec.Spec{Image: "x", MemoryBytes: 1}},
	} {
		if _, err := m.RunCode(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if n := len(containers(t, h, config.Instance)); n != 0 {
		t.Errorf("%d containers made", n)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.RunCode(t.Context(), sandbox.Code{Language: "sh", Program: program}); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("after the end: %v", err)
	}
}

// Shutting down does not wait for programs: it ends them.
func TestCodeEndsWithItsManager(t *testing.T) {
	h, m, config := coder(t, 0)
	type ended struct {
		r   sandbox.CodeResult
		err error
	}
	done := make(chan ended)
	go func() {
		r, err := m.RunCode(context.Background(), sandbox.Code{Language: "sh", Program: []byte("sleep 100")})
		done <- ended{r, err}
	}()
	eventually(t, "the program runs", func() bool {
		found, _ := filepath.Glob(filepath.Join(config.WorkspaceRoot, ".pool-*", "*", "out"))
		return len(found) == 1
	})
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := <-done; e.err != nil || !e.r.Canceled {
		t.Errorf("got %+v (%v)", e.r.Result, e.err)
	}
	if n := len(containers(t, h, config.Instance)); n != 0 {
		t.Errorf("%d containers left", n)
	}
	if slots, _ := filepath.Glob(filepath.Join(config.WorkspaceRoot, ".pool-*", "*")); len(slots) != 0 {
		t.Errorf("slots left: %v", slots)
	}
}
