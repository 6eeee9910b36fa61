package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// tree prints a folder of this machine.
func tree(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", `cd "$1" && find . -mindepth 1 | sort | while read f; do
		printf '%s %s' "$f" "$(stat -c %a "$f")"; if [ -L "$f" ]; then printf ' %s' "$(readlink "$f")"; elif [ -f "$f" ]; then printf ' %s' "$(cat "$f")"; fi; echo; done`, "sh", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestSandboxCp(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	const session = "irc:room:1"
	dir := workspace.Path(s.host.Root, session)
	local := t.TempDir()
	script := func(dir, script string) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-ec", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	script(local, `mkdir -p src/sub; printf one >src/f; printf two >src/sub/run; chmod 755 src/sub/run; chmod 644 src/f; ln -s sub/run src/l`)
	const want = "./f 644 one\n./l 777 sub/run\n./sub 755\n./sub/run 755 two\n"
	in := func(name string) string { return filepath.Join(local, name) }

	s.flynn(exitOK, "cp", in("src/f"), session+":new/f")
	s.flynn(exitOK, "cp", in("src"), session+":copied")
	s.flynn(exitOK, "cp", in("src"), session+":new")
	if got, _ := s.flynn(exitOK, "exec", "--session", session, "cat new/f copied/sub/run new/src/l; stat -c %u copied/f"); got != "onetwotwo1000\n" {
		t.Errorf("in the session: %q", got)
	}
	script(local, "mkfifo src/pipe")
	if _, stderr := s.flynn(exitOK, "cp", in("src"), session+":piped"); !strings.Contains(stderr, "left out: pipe (special file)") {
		t.Errorf("nobody was told what was left out: %s", stderr)
	}
	script(local, "rm src/pipe")
	script(local, "mkdir there")
	for _, dir := range []string{"out", "there"} {
		s.flynn(exitOK, "cp", session+":copied", in(dir))
	}
	for _, dir := range []string{"out", "there/copied"} {
		if got := tree(t, in(dir)); got != want {
			t.Errorf("%s: %q", dir, got)
		}
	}
	s.flynn(exitOK, "cp", session+":copied/sub/run", in("single"))
	s.flynn(exitOK, "cp", session+":copied/sub/run", in("out"))
	for _, name := range []string{"single", "out/run"} {
		info, err := os.Stat(in(name))
		if err != nil || info.Mode().Perm() != 0o755 || info.Size() != 3 {
			t.Errorf("%s is %+v (%v)", name, info, err)
		}
	}

	packed, _ := s.flynn(exitOK, "cp", session+":copied", "-")
	var names []string
	for r := tar.NewReader(strings.NewReader(packed)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "f l sub/ sub/run" {
		t.Errorf("tar holds %s", got)
	}
	s.feed(strings.NewReader(packed), exitOK, "cp", "-", session+":unpacked")
	if got, _ := s.flynn(exitOK, "cp", session+":unpacked/l", "-"); got != "two" {
		t.Errorf("unpacked: %q", got)
	}

	// A hostile workspace and a hostile archive touch nothing.
	script(dir, `mkdir -p evil; ln -s /etc evil/etc; mkfifo evil/pipe; printf x >evil/f`)
	script(dir, `chown -R 1000:1000 evil 2>/dev/null || :`)
	script(local, `mkdir -p trap/evil; ln -s "$PWD/outside" trap/evil/etc; mkdir outside; printf kept >outside/f; ln -s "$PWD/outside/f" trap/evil/f`)
	if _, stderr := s.flynn(exitOK, "cp", session+":evil", in("trap")); !strings.Contains(stderr, "left out: pipe (special file)") {
		t.Errorf("a pipe: %q", stderr)
	}
	if got := tree(t, in("outside")); got != "./f 644 kept\n" {
		t.Errorf("outside: %q", got)
	}
	var bad bytes.Buffer
	w := tar.NewWriter(&bad)
	_ = w.WriteHeader(&tar.Header{Name: "ok", Typeflag: tar.TypeReg})
	_ = w.WriteHeader(&tar.Header{Name: "../x", Typeflag: tar.TypeReg})
	w.Close()
	if _, stderr := s.feed(&bad, exitFailure, "cp", "-", session+":bad"); !strings.Contains(stderr, "archive is refused") {
		t.Errorf("a bad archive: %q", stderr)
	}
	for _, c := range []struct {
		code   int
		args   []string
		stderr string
	}{
		{exitUsage, []string{"one"}, "needs two arguments"},
		{exitUsage, []string{in("src"), in("dst")}, "must be SESSION:PATH"},
		{exitUsage, []string{session + ":a", session + ":b"}, "must be SESSION:PATH"},
		{exitUsage, []string{"--json", session + ":copied", "-"}, "both need standard output"},
		{exitFailure, []string{"nosuch:x", in("dst")}, "no session in"},
		{exitFailure, []string{session + ":nosuch", in("dst")}, "no such file"},
		{exitFailure, []string{session + ":../x", in("dst")}, "leaves the workspace"},
		{exitFailure, []string{in("nosuch"), session + ":x"}, "no such file"},
		{exitFailure, []string{"/dev/null", session + ":x"}, "neither a file nor a folder"},
	} {
		if _, stderr := s.flynn(c.code, append([]string{"cp"}, c.args...)...); !strings.Contains(stderr, c.stderr) {
			t.Errorf("%q: %s", c.args, stderr)
		}
	}
	if got, _ := s.flynn(exitOK, "exec", "--session", session, "ls -A . | grep -c -e bad -e '[.]flynn'; true"); got != "0\n" {
		t.Errorf("left: %s", got)
	}
	if left := s.listed("list"); len(left) != 0 {
		t.Errorf("containers left: %+v", left)
	}
}

// A repository leaves the sandbox without its hooks, which git on this machine would run.
func TestSandboxCpLeavesHooksBehind(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	const session = "irc:room:1"
	if err := os.MkdirAll(workspace.Path(s.host.Root, session), 0o700); err != nil {
		t.Fatal(err)
	}
	s.flynn(exitOK, "exec", "--session", session, `set -e
		for d in hk/.git/hooks hk/sub/.GIT/Hooks hk/.git/modules/m/hooks hk/bare.git/hooks; do mkdir -p $d; echo evil > $d/post-checkout; chmod 755 $d/post-checkout; done
		touch hk/bare.git/HEAD hk/f; mkdir -p hk/.git/refs/heads/hooks hk/hooks; echo x > hk/.git/refs/heads/hooks/b; echo x > hk/hooks/mine; ln -s ../../f hk/bare.git/l
		mkdir -p linked/.git; ln -s ../../hk/hooks linked/.git/hooks`)
	local := t.TempDir()
	in := func(name string) string { return filepath.Join(local, name) }
	evil := func(dir string) string {
		out, err := exec.Command("/bin/sh", "-c", `cd "$1" && find . -path '*ooks*' ! -type d | sort`, "sh", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const harmless = "./.git/refs/heads/hooks/b\n./hooks/mine\n"
	_, stderr := s.flynn(exitOK, "cp", session+":hk", in("out"))
	if got := evil(in("out")); got != harmless {
		t.Errorf("copied %s", got)
	}
	for _, want := range []string{".git/hooks (hook of git)", "sub/.GIT/Hooks (hook of git)", "bare.git/hooks", ".git/modules/m/hooks", "--hooks copies"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in %s", want, stderr)
		}
	}
	s.flynn(exitOK, "cp", session+":linked", in("linked"))
	if _, err := os.Lstat(in("linked/.git/hooks")); err == nil {
		t.Error("a link in the place of the hooks was copied")
	}
	for from, to := range map[string]string{"hk/.git": "bare", "hk/.git/": "bare2", "hk/bare.git": "bare3", "hk/.git/hooks": "hooks", "hk": "x/.git"} {
		s.flynn(exitOK, "cp", session+":"+from, in(to)) // also where the folder's own name says so
		if got := evil(local); strings.Contains(got, "post-checkout") {
			t.Errorf("of %s came %s", from, got)
		}
	}
	packed, _ := s.flynn(exitOK, "cp", session+":hk", "-")
	if strings.Contains(packed, "post-checkout") {
		t.Error("a tar has hooks")
	}
	s.flynn(exitOK, "cp", "--hooks", session+":hk", in("all"))
	if got := evil(in("all")); strings.Count(got, "post-checkout") != 4 {
		t.Errorf("with --hooks came %s", got)
	}
}

func TestSandboxCpFolders(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	const session = "irc:room:1"
	if err := os.MkdirAll(workspace.Path(s.host.Root, session), 0o700); err != nil {
		t.Fatal(err)
	}
	local := t.TempDir()
	file := filepath.Join(local, "f")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.flynn(exitOK, "cp", file, session+":new/deep/dir/")
	s.flynn(exitOK, "cp", session+":new/deep/dir/f", filepath.Join(local, "here", "too")+"/")
	if got, err := os.ReadFile(filepath.Join(local, "here", "too", "f")); err != nil || string(got) != "text" {
		t.Errorf("copied %q, %v", got, err)
	}
	s.flynn(exitOK, "exec", "--session", session, "mkdir locked half; chmod 0 locked; touch half/f half/shut; chmod 0 half/shut; mkfifo half/pipe")
	s.flynn(exitFailure, "cp", session+":locked", filepath.Join(local, "a", "b"))
	if _, err := os.Lstat(filepath.Join(local, "a")); err == nil {
		t.Error("a copy that was refused leaves a folder")
	}
	if _, stderr := s.flynn(exitOK, "cp", session+":half", filepath.Join(local, "half")); !strings.Contains(stderr, "left out: pipe (special file), shut (closed to its own user)") {
		t.Errorf("left out: %s", stderr)
	}
	var tally struct {
		Left []struct{ Path, Why string } `json:"left_out"`
	}
	out, _ := s.flynn(exitOK, "cp", "--json", session+":half", filepath.Join(local, "again"))
	if err := json.Unmarshal([]byte(out), &tally); err != nil || len(tally.Left) != 2 {
		t.Errorf("JSON %s, %v", out, err)
	}
}
