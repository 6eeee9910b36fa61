package livetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// codeAgent is an agent of kind code on an image with Python. more is added to its section code.
func codeAgent(image, more string) string {
	return `
[agent_configs.analyst]
kind = "code"
tool_profile = "messaging"
[agent_configs.analyst.tool_overrides]
allow = ["shell.exec"]
[agent_configs.analyst.code]
image = "` + image + `"
warm_pool = 0
` + more + `
[routing]
default_agent = "analyst"
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/state"
[sandbox]
enabled = true
mount_roots = ["%DIR%/shared"]
`
}

func TestCodeAgent(t *testing.T) {
	engine := sandboxtest.Engine(t)
	s := newSite(t, codeAgent(engine.Python(t), patient))
	s.start()
	for _, c := range []struct{ name, says, want string }{
		{"prose", "hello", "You said: hello"},
		{"a program", "!py print(2+2)", "4\n[exit code 0]"},
		{"lines", "!py\nfor i in range(3):\n    print(i)", "0\n1\n2\n[exit code 0]"},
		{"an exception", "!py 1/0", "ZeroDivisionError: division by zero\n[exit code 1]"},
		{"another language", "!js 1", "refused: the arguments do not fit the tool's schema:\nlanguage: value must be 'python'"},
		{"another tool", `!tool memory.read {"key":"k"}`, `refused: tool "memory.read" is not offered; these are: code.run`},
		{"its own user", "!py import os; print(os.getuid() != 0, sorted(os.listdir()))", "True ['out']"},
		{"nothing stays", "!py open('left', 'w'); open('/tmp/left', 'w')", "[exit code 0]"},
		{"nothing was left", "!py import os; print(os.path.exists('left'), os.path.exists('/tmp/left'))", "False False\n[exit code 0]"},
		{"helpers", "!py import flynn\nflynn.call('memory.write', key='k', text='42 apples')\nprint(flynn.call('memory.read', key='k'))", "42 apples"},
		{"a tool that it does not have", "!py import flynn\nflynn.call('file.read', path='x')", `flynn.Error: refused: tool "file.read" is not offered; these are: memory.forget, memory.read, memory.search, memory.write, shell.exec, web.fetch`},
		{"itself", "!py import flynn\nflynn.call('code.run', language='python', program='1')", `tool "code.run" is not offered`},
		{"arguments that fit no schema", "!py import flynn\nflynn.call('memory.read', nosuch=1)", "the arguments do not fit the tool's schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.says(strings.ReplaceAll(c.name, " ", "-"), c.says).Text; !strings.Contains(got, c.want) {
				t.Errorf("the answer is %q, want %q in it", got, c.want)
			}
		})
	}
	t.Run("a call that a person approves", func(t *testing.T) { s.approvedHelper() })
	s.hurries(2)
	t.Run("a program for ever", func(t *testing.T) {
		if got := s.says("forever", "!py while True: pass").Text; !strings.Contains(got, "timed out after 2") {
			t.Errorf("the answer is %q", got)
		}
	})
	s.eventually("no container is left", func() error {
		if left := s.containers(engine); len(left) > 0 {
			return fmt.Errorf("containers: %v", left)
		}
		return nil
	})
}

// patient is the time that programs have where it is not what is tried: the machine may have other work.
const patient = "timeout_seconds = 60"

// hurries gives programs less time from now on.
func (s *site) hurries(generation uint64) {
	s.t.Helper()
	s.write("flynn.toml", strings.Replace(s.read("flynn.toml"), patient, "timeout_seconds = 2", 1))
	s.generation(generation)
}

// approvedHelper has a program wait longer for a person than it may run.
func (s *site) approvedHelper() {
	s.t.Helper()
	s.send("asks", "1", "!py import flynn, time\nprint(flynn.call('shell.exec', command='echo from the host'))\n"+
		"try:\n    flynn.call('shell.exec', command='echo again')\nexcept flynn.Error as e:\n    print('no:', e)")
	decide := func(grant bool) {
		s.eventually("somebody is asked", func() error {
			for _, a := range ask[[]gateway.Approval](s, "/api/v1/approvals") {
				_, err := s.call("/api/v1/approvals/"+a.ID+"/decision", map[string]bool{"grant": grant})
				return err
			}
			return fmt.Errorf("nobody yet")
		})
	}
	decide(true)
	decide(false)
	got := s.reply("asks", 1).Text
	for _, want := range []string{"from the host\n", "no: refused: ", "did not approve this call", "[exit code 0]"} {
		if !strings.Contains(got, want) {
			s.t.Errorf("the answer is %q, want %q in it", got, want)
		}
	}
}

func TestCodeAgentIsContained(t *testing.T) {
	engine := sandboxtest.Engine(t)
	s := newSite(t, codeAgent(engine.Python(t), patient+"\npids_limit = 32\nmemory_limit = \"64m\""))
	s.start()
	for _, c := range []struct{ kind, says, want string }{
		{"network", "!py import urllib.request\nurllib.request.urlopen('http://192.0.2.1/')", "[the program tried to reach a network; there is none]"},
		{"files", "!py open('/root/.ssh/id_rsa')", "[exit code 1]"},
		{"memory", "!py a = []\nwhile True: a.append(bytearray(16 << 20))", "out of memory"},
		{"pids", "!py import os, time\nfor _ in range(100):\n    if os.fork() == 0: time.sleep(60)", "too many processes"},
		{"output", "!py print('x' * 1_000_000)", "bytes of output dropped"},
		{"time", "!py while True: pass", "timed out"},
	} {
		if c.kind == "time" {
			s.hurries(2)
		}
		if got := s.says(c.kind, c.says).Text; !strings.Contains(got, c.want) {
			t.Errorf("%s: the answer is %.2000q, want %q in it", c.kind, got, c.want)
		}
		s.eventually("it is counted", func() error {
			return s.metric(fmt.Sprintf("flynn_code_violations_total{agent=\"analyst\",kind=%q} 1", c.kind))
		})
	}
	s.stop()
	db, err := sqlite.Open(t.Context(), filepath.Join(s.dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.ListDecisions(t.Context(), journal.DecisionFilter{Kind: "violation"})
	if err != nil || len(rows) < 6 {
		t.Fatalf("%d rows (%v)", len(rows), err)
	}
	if !slices.ContainsFunc(rows, func(d journal.Decision) bool {
		return d.Turn != "" && strings.Contains(d.Reason, `files: no access to "/root/.ssh/id_rsa"`)
	}) {
		t.Errorf("rows: %+v", rows)
	}
}

func TestCodeAgentWithoutAnEngine(t *testing.T) {
	t.Parallel()
	s := newSite(t, codeAgent("any", "")+"on_unavailable = \"host\"\nengine = \"unix://%DIR%/no.sock\"\n")
	s.start()
	want := "I could not answer this: programs cannot be run: the sandbox is unavailable: no engine answers at unix://" + s.dir +
		"/no.sock: start Docker, or set engine in [sandbox]."
	for id, says := range map[string]string{"program": "!py open('ran', 'w')", "prose": "hello"} {
		if got := s.says(id, says); got.Text != want {
			t.Errorf("the answer is\n %q\nwant\n %q", got.Text, want)
		}
	}
	if files := s.workspaceFiles(); len(files) > 0 {
		t.Errorf("it ran on the host: %v", files)
	}
}

// A model that calls no tools writes its programs as blocks of code, and reads their output as text.
func TestCodeAgentWithFencedPrograms(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	s := newSite(t, codeAgent(engine.Python(t), "fenced = true"))
	s.start()
	s.send("fenced", "1", "!py print(6 * 7)")
	if got := s.reply("fenced", 2).Text; !strings.HasPrefix(got, "You said: The program's result:\n42\n") { // the first has the program
		t.Errorf("the answer is %q", got)
	}
	s.send("fenced", "2", "thanks")
	if got := s.reply("fenced", 3).Text; got != "You said: thanks" {
		t.Errorf("the next answer is %q", got)
	}
}

func TestCodeAgentWritesJavaScript(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	s := newSite(t, codeAgent("unused", "languages = [\"javascript\"]\njavascript_image = \""+engine.Node(t)+"\""))
	s.start()
	says := "!js const flynn = require('flynn');\nflynn.call('memory.write', {key: 'k', text: 'pears'});\n" +
		"console.log(flynn.call('memory.read', {key: 'k'}), [1, 2].map((x) => x * 2))"
	if got := s.says("js", says).Text; !strings.Contains(got, "pears") || !strings.Contains(got, "[ 2, 4 ]\n[exit code 0]") {
		t.Errorf("the answer is %q", got)
	}
}

// A program that ran when the host was killed is reported, and not run again.
func TestCodeAgentAfterACrash(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	s := newSite(t, codeAgent(engine.Python(t), "mounts = [{ source = \"%DIR%/shared\", target = \"/shared\", read_only = false }]"))
	shared := filepath.Join(s.dir, "shared")
	if err := os.Mkdir(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	s.start()
	s.send("crash", "1", "!py import time\nopen('/shared/runs', 'a').write('x')\ntime.sleep(25)")
	runs := func() string {
		text, _ := os.ReadFile(filepath.Join(shared, "runs"))
		return string(text)
	}
	s.eventually("the program runs", func() error {
		if runs() == "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	s.kill()
	s.start()
	if got := s.reply("crash", 1).Text; !strings.Contains(got, "The host was restarted while this call ran") {
		t.Errorf("the answer is %q", got)
	}
	if runs() != "x" {
		t.Errorf("it ran %d times", len(runs()))
	}
	s.eventually("its container is gone", func() error {
		if left := s.containers(engine); len(left) > 0 {
			return fmt.Errorf("containers: %v", left)
		}
		return nil
	})
}

// A person's attachment is a file for the program, and the program's files go back with the answer.
func TestCodeAgentFilesGoBothWays(t *testing.T) {
	t.Parallel()
	image := sandboxtest.Engine(t).Python(t)
	s := newStage(t, fmt.Sprintf(`stream = false
[agent_configs.coder]
kind = "code"
[agent_configs.coder.code]
image = %q
warm_pool = 0
[routing.senders]
"platform:ann" = "coder"
[sandbox]
enabled = true
image = %q
engine = %q
`, image, image, os.Getenv("DOCKER_HOST")))
	t.Cleanup(func() { s.program.Stop() })
	if err := s.program.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.platform.Offer(hosttest.File{Handle: "f1", Data: []byte("region,amount\nnorth,10\nsouth,5\n")})
	s.say(hosttest.Event{Text: "look", Files: []hosttest.File{{Handle: "f1", Name: "sales.csv"}}})
	out := s.say(hosttest.Event{Text: "!py import csv, pathlib\nrows = list(csv.DictReader(open('in/sales.csv')))\n" +
		"total = sum(int(r['amount']) for r in rows)\npathlib.Path('out/deep').mkdir()\n" +
		"pathlib.Path('out/report.txt').write_text(f'total {total}')\npathlib.Path('out/deep/dot.png').write_bytes(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(20))"})
	if len(out.Files) != 2 || out.Files[0].Name != "dot.png" || out.Files[1].Name != "report.txt" || string(out.Files[1].Data) != "total 15" {
		t.Errorf("the answer %q has the files %+v", out.Text, out.Files)
	}
	for _, want := range []string{"out/report.txt (text/plain, 8 bytes) goes with your answer", "out/deep/dot.png (image/png, 28 bytes) goes with your answer"} {
		if !strings.Contains(out.Text, want) {
			t.Errorf("the model was told %q, want %q", out.Text, want)
		}
	}
	if next := s.say(hosttest.Event{Text: "thanks"}); len(next.Files) != 0 {
		t.Errorf("the next answer has files: %+v", next)
	}
}
