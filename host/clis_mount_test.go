package host

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// simple is a configuration of a program that answers by text: a line of shell.
func simple(script string, more ...string) string {
	return fmt.Sprintf("command = [\"sh\", \"-c\", '''%s''']\ntimeout_seconds = 120\n%s", script, strings.Join(more, "\n"))
}

// readable makes folders that a test shares with the user of a sandbox.
func readable(t *testing.T, folders ...string) {
	t.Helper()
	for _, dir := range folders {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFolderOfAProgram(t *testing.T) {
	engine := sandboxtest.Engine(t)
	dir := t.TempDir()
	project, elsewhere := filepath.Join(dir, "projects", "site"), filepath.Join(dir, "elsewhere")
	readable(t, project, elsewhere)
	s := startCLI(t, dir, simple(`cat >/dev/null; pwd; echo made >made; ls`, fmt.Sprintf("folder = %q\n[cli]\nroots = [%q]", project, filepath.Dir(project))))
	s.sweepVolumes(engine)
	s.expect(s.ask("go"), "/workspace\nmade")
	if text, err := os.ReadFile(filepath.Join(project, "made")); err != nil || string(text) != "made\n" {
		t.Errorf("the folder has %q, %v", text, err)
	}
	// The folder is swapped for a link to another place while the host runs.
	if err := os.Rename(project, project+"-was"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, project); err != nil {
		t.Fatal(err)
	}
	s.expect(s.ask("again"), "I could not answer this", "which lies below no folder of roots of [cli]")
	if entries, _ := os.ReadDir(elsewhere); len(entries) != 0 {
		t.Errorf("it has written to %v", entries)
	}
}

func TestFolderOutsideTheRoots(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"projects", "other"} {
		readable(t, filepath.Join(dir, name))
	}
	path := filepath.Join(dir, "flynn.toml")
	for _, c := range []struct{ folder, want string }{
		{filepath.Join(dir, "other"), "which lies below no folder of roots of [cli]"},
		{filepath.Join(dir, "projects", "..", "other"), "which lies below no folder of roots of [cli]"},
		{filepath.Join(dir, "projects", "missing"), "no such file or directory"},
	} {
		text := fmt.Sprintf(`
[sandbox]
enabled = true
[agent_configs.main]
kind = "cli"
[agent_configs.main.cli]
preset = "claude"
folder = %q
[cli]
roots = [%q]
[routing]
default_agent = "main"
`, c.folder, filepath.Join(dir, "projects"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: discard()})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "agent_configs.main.cli.folder") {
			t.Errorf("%s: %v", c.folder, err)
		}
	}
}

func TestLoginOfAProgram(t *testing.T) {
	engine := sandboxtest.Engine(t)
	dir := t.TempDir()
	login := filepath.Join(dir, "login")
	readable(t, login)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(login, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const script = `cat >/dev/null; cd "$HOME"; cat auth seed talk 2>/dev/null; echo said >>talk; echo mine >seed; ls -l auth; touch /auth/x 2>&1`
	more := fmt.Sprintf("auth = \"mount\"\nauth_dir = %q\nauth_files = [\"auth\"]\nauth_seed = [\"seed\"]", login)
	put("seed", "the owner's\n")
	s := startCLI(t, dir, simple(script, more))
	s.sweepVolumes(engine)
	s.expect(s.ask("go"), "no credentials: /auth/auth is not there")
	put("auth", "first login\n")
	s.expect(s.ask("go"), "first login\nthe owner's\n-rw-------", "Read-only file system")
	put("auth", "second login\n")
	s.expect(s.ask("go"), "second login\nmine\nsaid\n-rw-------")
}

func TestOutputOfAProgram(t *testing.T) {
	engine := sandboxtest.Engine(t)
	t.Setenv("FLYNN_TEST_CLI_KEY", "the-key-that-nobody-inside-sees")
	const script = `case "$1" in
env*) env >"$2"; tr "\\0" "\\n" </proc/self/environ >>"$2"; exit ;;
Read*|The*) set -- "$(cat "$(echo "$1" | grep -o "/workspace/[^ ]*")")" "$2" ;;
esac
echo "progress"; printf %s "answer: $(printf %s "$1" | wc -c) bytes" >"$2"`
	config := fmt.Sprintf(`
command = ["sh", "-c", '''%s''', "sh", "{prompt}", "{response_file}"]
prompt = "argument"
output = "response_file"
timeout_seconds = 120
api_key_env = "FLYNN_TEST_CLI_KEY"
api_host = "api.example.com"
api_header = "Authorization"
api_prefix = "Bearer "
env = { PLACE = "{workspace}" }
`, script)
	s := startCLI(t, t.TempDir(), config)
	s.sweepVolumes(engine)
	s.expect(s.ask("hello"), "answer: 5 bytes")
	s.expect(s.ask(strings.Repeat("long ", 10_000)), "answer: 50000 bytes")
	got := s.ask("env please").Text
	if !strings.Contains(got, "PLACE=/workspace") || !strings.Contains(got, "HOME=/state") || strings.Contains(got, "the-key-that") {
		t.Errorf("the program's environment is %q", got)
	}
	entries, err := os.ReadDir(s.workspace())
	if err != nil || len(entries) != 0 {
		t.Errorf("left in the workspace: %v, %v", entries, err)
	}
}

// A program without its key says so at the first message; the host has started.
func TestProgramWithoutAKey(t *testing.T) {
	engine := sandboxtest.Engine(t)
	s := startCLI(t, t.TempDir(), fmt.Sprintf("preset = \"claude\"\nimage = %q\napi_key_env = \"FLYNN_TEST_NO_SUCH_KEY\"", sandboxtest.Image))
	s.sweepVolumes(engine)
	s.expect(s.ask("hello"), "claude cannot run: it has no key for its model: set FLYNN_TEST_NO_SUCH_KEY")
}

// On the host it takes two keys of the configuration, and its owner at a local frontend.
func TestProgramOnTheHost(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	for _, c := range []struct{ name, sandbox, key, want string }{
		{"not asked for", "false", "", "an agent of kind cli runs in a container"},
		{"asked for once", "true", "dangerously_on_host = true", "the agent has a sandbox"},
	} {
		text := fmt.Sprintf(`
[sandbox]
enabled = true
[agent_configs.main]
kind = "cli"
sandbox = %s
[agent_configs.main.cli]
preset = "claude"
%s
[routing]
default_agent = "main"
`, c.sandbox, c.key)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: discard()}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	text := fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = "127.0.0.1:0"
[agent_configs.main]
kind = "cli"
sandbox = false
approve = "none"
[agent_configs.main.cli]
dangerously_on_host = true
%s
[routing]
default_agent = "main"
`, filepath.Join(dir, "s"), simple("cat; echo on the host"))
	s := runCLI(t, dir, text)
	s.expect(s.ask("hello"), "hello", "on the host")
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
