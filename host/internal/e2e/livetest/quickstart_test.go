package livetest

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/native"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/sdk/need"
)

// quickstart is the example's own configuration, with this site's store and port.
func quickstart(t *testing.T, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples/quickstart/flynn.toml"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	changes = append(changes, `"../../.cache/quickstart"`, `"%DIR%/state"`)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(config, changes[i]) {
			t.Fatalf("the quickstart has no %s any more", changes[i])
		}
		config = strings.ReplaceAll(config, changes[i], changes[i+1])
	}
	return config + "[gateway]\nlisten = \"127.0.0.1:%PORT%\"\n"
}

// TestQuickstartWithoutAnEngine: on a machine with nothing but Flynn, a command runs in a sandbox, and sees nothing of the machine's people.
func TestQuickstartWithoutAnEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	d, err := native.New(native.Config{Folder: t.TempDir(), Supervisor: func() (string, error) { return program.FindSupervisor(slog.New(slog.DiscardHandler)) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	need.Part(t, "namespace", d.Ping(t.Context()))
	s := newSite(t, quickstart(t))
	s.start()
	p := browse(t, s)
	p.until(`document.querySelector("#health-text").textContent === "All well"`)
	p.say("!sh uname -a; ls -A /home; touch here")
	if got := p.answered("1"); !strings.Contains(got, "Linux sandbox ") {
		t.Errorf("the answer is %q", got)
	}
	if got := p.text(".call .verdict"); got != "in the sandbox" {
		t.Errorf("the outcome is %q", got)
	}
	if files := s.workspaceFiles(); len(files) != 1 {
		t.Errorf("the command left %v", files)
	}
}

// TestQuickstartWithoutASandbox: where no sandbox can be made, a command waits for an approval, which says so.
func TestQuickstartWithoutASandbox(t *testing.T) {
	s := newSite(t, quickstart(t, "local_frontends = true\n", "local_frontends = true\nengine = \"unix:///nonexistent/docker.sock\"\n"))
	s.start()
	p := browse(t, s)

	p.until(`document.querySelector("#health-text").textContent === "1 warning"`)
	const warning = "No sandbox: tools run on this machine, each shell command after an approval. The reason: " +
		"no engine answers at unix:///nonexistent/docker.sock: start Docker, or set engine in [sandbox]."
	if got := p.text("#status .warning"); got != warning {
		t.Errorf("the warning is %q, want %q", got, warning)
	}

	const command = "uname -a; touch approved"
	p.say("!sh " + command)
	p.until(`document.querySelector(".approval .approve:enabled")`)
	if got := p.text(".approval h2"); got != "Allow shell.exec to run on the host?" {
		t.Errorf("the question is %q", got)
	}
	if got := p.text(".approval .asked pre"); got != command {
		t.Errorf("the card shows the command %q, want %q", got, command)
	}
	const reason = "the sandbox is unavailable: no engine answers at unix:///nonexistent/docker.sock: " +
		`start Docker, or set engine in [sandbox]; on_unavailable = "host" lets the call run on the host`
	if got := p.text(".approval dl"); !strings.Contains(got, reason) {
		t.Errorf("the card says %q, want in it %q", got, reason)
	}
	if files := s.workspaceFiles(); len(files) > 0 {
		t.Errorf("the command ran before it was approved: %v", files)
	}
	p.click(".approval .approve")
	if got := p.answered("1"); !strings.Contains(got, "Linux") {
		t.Errorf("the answer is %q", got)
	}
	if got := p.text(".call .verdict"); got != "on the host" {
		t.Errorf("the outcome is %q", got)
	}
	if got := p.text(".call .output pre"); !strings.Contains(got, "Linux") {
		t.Errorf("the output is %q", got)
	}
	p.until(`!document.querySelector(".approval")`)
	if files := s.workspaceFiles(); len(files) != 1 {
		t.Errorf("the command left %v", files)
	}

	p.say("!sh touch denied")
	p.click(".approval .deny")
	if got := p.answered("2"); !strings.Contains(got, "refused") {
		t.Errorf("after the denial the answer is %q", got)
	}
	if got := p.text(".call .verdict"); got != "denied" {
		t.Errorf("after the denial the outcome is %q", got)
	}
	if files := s.workspaceFiles(); len(files) != 1 {
		t.Errorf("the denied command left %v", files)
	}
}

// workspaceFiles are the files in all workspaces.
func (s *site) workspaceFiles() []string {
	files, err := filepath.Glob(filepath.Join(s.dir, "state/workspaces/[^.]*/*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

func TestQuickstartWithDocker(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	s := newSite(t, quickstart(t, "debian:stable-slim", sandboxtest.Image))
	s.start()
	p := browse(t, s)
	p.until(`document.querySelector("#health-text").textContent === "All well"`)

	p.say("!sh id -u; pwd")
	answer := p.answered("1")
	if uid, _, _ := strings.Cut(answer, "\n"); uid == "0" || uid == "" || !strings.Contains(answer, "/workspace") {
		t.Errorf("the answer is %q, want another user than root, in /workspace", answer)
	}
	if got := p.text(".call .verdict"); got != "in the sandbox" {
		t.Errorf("the outcome is %q", got)
	}

	mine := s.containers(engine)
	if len(mine) != 1 {
		t.Fatalf("containers: %v", mine)
	}
	if err := engine.API.ContainerRemove(t.Context(), mine[0], container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	p.say("!sh echo again: $((6*7))")
	if got := p.answered("2"); !strings.Contains(got, "again: 42") {
		t.Errorf("after the container was removed the answer is %q", got)
	}
}

func TestPageSurvivesAKilledHost(t *testing.T) {
	s := newSite(t, quickstart(t, "enabled         = true", "enabled = false"))
	s.start()
	p := browse(t, s)
	p.say("first")
	p.answered("1")
	p.say("!slow 2000 second")
	s.eventually("the second message is taken", func() error { return s.metric(`flynn_messages_total{channel="web",fate="new"} 2`) })
	s.kill()
	p.until(`!document.querySelector("#connection.connected")`)
	s.start()
	p.until(`document.querySelector("#connection.connected")`)
	p.answered("2")
	p.say("third")
	p.answered("3")
	p.say("!fail")
	p.answered("4")
	p.until(`document.querySelector("#working").hidden`)
	const want = "first|You said: first|!slow 2000 second|You said: second|third|You said: third|" +
		"!fail|I could not answer this: the model is too busy right now. Please try again later.\n\n" +
		`call demo model "": overloaded: failed as asked` // which the owner reads at a local frontend
	got := p.eval(`[...document.querySelectorAll(".message")].map((m) => (m.querySelector(".bubble") ?? m).textContent.trim()).join("|")`)
	if got != want {
		t.Errorf("the page shows\n %s\nwant\n %s", got, want)
	}

	p.click("#delete")
	p.until(`document.querySelector("#removal-what").textContent.includes("(4 answers)")`)
	p.click("#confirm-delete")
	p.until(`!document.querySelector("#removal").open && document.querySelectorAll("#conversations li, .message").length === 0`)
}

func TestPageCountsABrokenPolicyOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoAgents+demoModels+"[[policies]]\nname = \"rules\"\npath = \"rules.wasm\"\nkinds = [\"tool\"]\n")
	s.write("rules.wasm", "not a module")
	s.start()
	p := browse(t, s)
	p.until(`document.querySelector("#health-text").textContent.includes("warning")`)
	if got := p.text("#health-text"); got != "2 warnings" { // the other one: the sandbox is off
		t.Errorf("the page counts %s: %s", got, p.text("#status-body"))
	}
	if got := p.text("#status .warning"); !strings.Contains(got, "rules") {
		t.Errorf("the warning is %q", got)
	}
}
