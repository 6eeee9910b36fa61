package machine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// plants are files that a program reads in HOME before it looks at its arguments, each with a line that a person might approve. Where the
// program believes the file, "owned" is made in the workspace.
var plants = []struct {
	program, file, text, line string
}{
	{"wget", ".wgetrc", "use_askpass = WORK/ask\n", "wget -q -t 1 -O /dev/null http://127.0.0.1:9/; true"},
	{"curl", ".curlrc", "url = \"file:///etc/passwd\"\noutput = \"WORK/owned\"\n", "curl -s http://127.0.0.1:9/; true"},
	{"git", ".gitconfig", "[core]\n\tfsmonitor = \"touch WORK/owned; false\"\n", "git init -q repo && git -C repo status -s"},
	{"git", ".config/git/config", "[core]\n\tfsmonitor = \"touch WORK/owned; false\"\n", "git init -q repo && git -C repo status -s"},
	{"python3", ".local/lib/PYTHON/site-packages/usercustomize.py", "open('WORK/owned', 'w')\n", "python3 -c pass"},
	{"npm", ".npmrc", "registry=http://owned.invalid/\n", "npm config get registry | grep -q owned && touch WORK/owned; true"},
	{"aws", ".aws/config", "[default]\nregion = us-east-1\ncredential_process = touch WORK/owned\n", "aws --endpoint-url http://127.0.0.1:9 sts get-caller-identity; true"},
	// The same file by the path that aws opens, for machines that lack aws.
	{"python3", ".aws/config", "", `python3 -c 'import os; os.path.exists(os.path.expanduser("~/.aws/config")) and open("WORK/owned", "w")'`},
}

// TestNobodyWritesWhatACommandReadsInItsHome: the agent writes files of the workspace unasked, so HOME must not be there.
func TestNobodyWritesWhatACommandReadsInItsHome(t *testing.T) {
	for _, p := range plants {
		t.Run(p.program+" "+p.file, func(t *testing.T) {
			if _, err := exec.LookPath(p.program); err != nil {
				t.Skip(err)
			}
			work := t.TempDir()
			h := openHost(t, machine.HostConfig{Workspace: work, Homes: t.TempDir()})
			python := ""
			if strings.Contains(p.file, "PYTHON") {
				python = pythonVersion(t)
			}
			fill := strings.NewReplacer("WORK", work, "PYTHON", python).Replace
			put := func(name, text string) {
				if err := h.WriteFile(t.Context(), name, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			put(fill(p.file), fill(p.text))
			put("ask", "#!/bin/sh\ntouch "+work+"/owned\n")
			put("sub/x", "") // a folder without configuration of its own
			owned := filepath.Join(work, "owned")
			command := machine.Command{Script: fill(p.line), Dir: "sub"}
			for _, run := range []string{"first", "second"} { // a cache may be there now
				if r, err := h.Exec(t.Context(), command); err != nil || r.ExitCode != 0 {
					t.Fatalf("%s run: %+v, %v\n%s", run, r.ExitCode, err, r.Stderr)
				}
				if _, err := os.Stat(owned); err == nil {
					t.Fatalf("%s read what was planted", p.program)
				}
			}
			if err := os.RemoveAll(filepath.Join(work, "sub", "repo")); err != nil {
				t.Fatal(err)
			}
			// The proof that the plant is one: with HOME where it was, it works.
			command.Env = map[string]string{"HOME": work}
			if _, err := h.Exec(t.Context(), command); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(owned); err != nil {
				t.Errorf("the plant does nothing where it should, so this test proves nothing: %v", err)
			}
		})
	}
}

func pythonVersion(t *testing.T) string {
	out, err := exec.Command("python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		t.Skip(err)
	}
	return strings.TrimSpace(string(out))
}

func TestHomeOfACommand(t *testing.T) {
	homes := filepath.Join(t.TempDir(), "homes", "session")
	h := openHost(t, machine.HostConfig{Homes: homes})
	left := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(homes, "command-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	const files = `find "$HOME" ! -type d ! -type l`
	const plant = `mkdir -p "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_STATE_HOME/a" && chmod 0 "$XDG_STATE_HOME/a" && echo x >"$HOME/.curlrc" && echo x >"$XDG_CONFIG_HOME/c" && `
	for _, run := range []string{"first", "second"} {
		r, err := h.Exec(t.Context(), machine.Command{Script: files + "; " + plant + `echo "$HOME"`})
		home := strings.TrimSpace(string(r.Stdout))
		if err != nil || r.ExitCode != 0 || !strings.HasPrefix(home, homes) || strings.Contains(home, "\n") {
			t.Errorf("%s command has %q, exit code %d, error %v: want an empty HOME below %s", run, home, r.ExitCode, err, homes)
		}
	}
	if dirs := left(); len(dirs) > 0 {
		t.Errorf("%q are left", dirs)
	}
	for name, script := range map[string]string{"XDG": `echo x >>"$XDG_CACHE_HOME/c"; cat "$XDG_CACHE_HOME/c"`, "npm": `echo x >>~/.npm/c; cat ~/.npm/c`} {
		run(t, h, script)
		if got := string(run(t, h, script).Stdout); got != "x\nx\n" {
			t.Errorf("the cache of %s has %q at the second command", name, got)
		}
	}
	if r, err := h.Exec(t.Context(), machine.Command{Script: "exit 3", Env: map[string]string{"a=b": ""}}); err == nil {
		t.Errorf("a bad variable is taken: %+v", r)
	}
	kept := machine.Command{Script: `echo x >>~/state; cat ~/state`, KeepHome: true}
	for _, want := range []string{"x\n", "x\nx\n"} {
		if r, err := h.Exec(t.Context(), kept); err != nil || string(r.Stdout) != want {
			t.Errorf("a program that keeps its home has %q (%v), want %q", r.Stdout, err, want)
		}
	}
	p, err := h.Start(t.Context(), machine.Command{Script: `echo x >~/a; exec sleep 60`})
	if err != nil || len(left()) != 1 {
		t.Errorf("a background process has the homes %q, %v", left(), err)
	}
	run(t, h, "true")
	if len(left()) != 1 {
		t.Errorf("another command has left %q of a background process's home", left())
	}
	if _, err := h.Kill(t.Context(), p.ID); err != nil || len(left()) > 0 {
		t.Errorf("after its end: %q, %v", left(), err)
	}
	// The machine removes the leftovers of a crash when it is opened again.
	if err := os.MkdirAll(filepath.Join(homes, "command-crashed", "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	openHost(t, machine.HostConfig{Homes: homes})
	if len(left()) > 0 {
		t.Errorf("a crash has left %q", left())
	}
}

func TestHomesOutsideOfTheWorkspace(t *testing.T) {
	work := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(work, link); err != nil {
		t.Fatal(err)
	}
	for name, homes := range map[string]string{
		"the workspace": work, "in it": filepath.Join(work, "a"), "in it, by a link": filepath.Join(link, "b"), "around it": filepath.Dir(work), "relative": "homes", "none": "",
	} {
		if h, err := machine.NewHost(machine.HostConfig{Workspace: work, Homes: homes}); err == nil {
			h.Close()
			t.Errorf("%s: home folders are taken there", name)
		}
	}
}

// TestSearchPath: a shell finds no program where the agent writes.
func TestSearchPath(t *testing.T) {
	work := t.TempDir()
	bin := filepath.Join(work, "bin")
	link := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{".:/usr/bin", ":/usr/bin", "/usr/bin:", "bin:/usr/bin", bin + ":/usr/bin", link + ":/usr/bin", work + "/../" + filepath.Base(work) + ":/usr/bin"} {
		t.Setenv("PATH", path)
		if got := machine.SearchPath(work); got != "/usr/bin" {
			t.Errorf("of %q stays %q", path, got)
		}
	}
	for _, path := range []string{"", "."} {
		t.Setenv("PATH", path)
		if got := machine.SearchPath(work); !strings.Contains(got, "/usr/bin") || strings.Contains(got, ".") {
			t.Errorf("of %q stays %q", path, got)
		}
	}
}
