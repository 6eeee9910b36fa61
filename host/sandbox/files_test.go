package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox"
)

func TestFileRoundTrip(t *testing.T) {
	s := open(t)
	for _, size := range []int{0, 1, 64 << 10, 256<<10 + 1, 5 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			want := bytes.Repeat([]byte("0123456789abcdef\x00\xff"), size/18+1)[:size]
			if err := s.WriteFile(t.Context(), "a/b/file", want, 0o640); err != nil {
				t.Fatal(err)
			}
			got, total, err := s.ReadFile(t.Context(), "/workspace/a/b/file", 0, int64(size)+10)
			if err != nil || !bytes.Equal(got, want) || total != int64(size) {
				t.Errorf("read %d of %d bytes (%v)", len(got), total, err)
			}
		})
	}
	if got := shell(t, s, "stat -c '%a %u' a/b/file"); got != "640 1000\n" {
		t.Errorf("mode and owner: %s", got)
	}
	part, total, err := s.ReadFile(t.Context(), "a/b/file", 16, 4)
	if err != nil || string(part) != "\x00\xff01" || total != 5<<20 {
		t.Errorf("read part %q of %d (%v)", part, total, err)
	}
	if names := shell(t, s, "ls -A a/b"); names != "file\n" {
		t.Errorf("drafts left: %q", names)
	}
}

func TestList(t *testing.T) {
	s := open(t)
	shell(t, s, `mkdir d; cd d; printf abc > f; mkdir sub; ln -s nowhere link; mkfifo pipe; touch "$(printf 'bad\377name')"`)
	got, err := s.List(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name string
		mode fs.FileMode
	}{{"bad\xffname", 0}, {"f", 0}, {"link", fs.ModeSymlink}, {"pipe", fs.ModeNamedPipe}, {"sub", fs.ModeDir}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		if got[i].Name != w.name || got[i].Mode.Type() != w.mode || got[i].Mtime.IsZero() {
			t.Errorf("entry %d: got %+v, want %+v", i, got[i], w)
		}
	}
	if got[1].Size != 3 {
		t.Errorf("size of f is %d", got[1].Size)
	}
}

func TestFilesRefuse(t *testing.T) {
	s := open(t)
	shell(t, s, `
		mkdir d; echo x > d/f
		ln -s /etc/passwd out; ln -s .. up; ln -s /proc/1/environ magic; ln -s /proc/self/root root
		ln -s d/f in; ln -s loop loop; mkfifo fifo; mkdir secret; chmod 0 secret`)
	read := func(p string) error { _, _, err := s.ReadFile(t.Context(), p, 0, 100); return err }
	write := func(p string) error { return s.WriteFile(t.Context(), p, []byte("x"), 0o644) }
	list := func(p string) error { _, err := s.List(t.Context(), p); return err }
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"read missing", read("nosuch"), machine.ErrNotFound},
		{"read outside", read("/etc/passwd"), machine.ErrOutside},
		{"read dots", read("d/../../etc/passwd"), machine.ErrOutside},
		{"read sibling prefix", read("/workspacex/f"), machine.ErrOutside},
		{"read link out", read("out"), machine.ErrOutside},
		{"read below link up", read("up/etc/passwd"), machine.ErrOutside},
		{"read magic link", read("magic"), machine.ErrOutside},
		{"read below magic link", read("root/etc/passwd"), machine.ErrOutside},
		{"read link loop", read("loop"), machine.ErrOutside},
		{"read folder", read("d"), machine.ErrNotRegular},
		{"read FIFO", read("fifo"), machine.ErrNotRegular},
		{"read link within", read("in"), nil},
		{"write FIFO", write("fifo"), machine.ErrNotRegular},
		{"write folder", write("d"), machine.ErrNotRegular},
		{"write workspace", write("."), machine.ErrNotRegular},
		{"write over link out", write("out"), machine.ErrOutside},
		{"write below link up", write("up/x"), machine.ErrOutside},
		{"write below file", write("d/f/g"), machine.ErrNotFound},
		{"write zero byte", write("a\x00b"), machine.ErrOutside},
		{"list missing", list("nosuch"), machine.ErrNotFound},
		{"list file", list("d/f"), machine.ErrNotRegular},
		{"list FIFO", list("fifo"), machine.ErrNotRegular},
		{"list link up", list("up"), machine.ErrOutside},
	} {
		if c.want == nil && c.err != nil || !errors.Is(c.err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, c.err, c.want)
		}
	}
	for name, err := range map[string]error{"write": write("secret/x"), "list": list("secret")} {
		if err == nil {
			t.Errorf("%s into a folder closed to the workload succeeded: the supervisor lent its own rights", name)
		}
	}
}

// The workload swaps a folder for a link to the outside while the host reads and writes through it.
func TestSymlinkSwapNeverEscapes(t *testing.T) {
	s := open(t)
	shell(t, s, "mkdir good; echo inside > good/hostname; ln -s /etc bad; cp -a good cur")
	p, err := s.Start(t.Context(), machine.Command{Script: `while :; do rm -rf cur; ln -s /etc cur; rm -f cur; cp -a good cur; done`})
	if err != nil {
		t.Fatal(err)
	}
	outside := []byte(shell(t, s, "cat /etc/hostname"))
	for range 2000 {
		got, _, err := s.ReadFile(t.Context(), "cur/hostname", 0, 100)
		if err == nil && bytes.Equal(got, outside) {
			t.Fatal("read the outside")
		}
	}
	if k, err := s.Kill(t.Context(), p.ID); err != nil || k.Result.Kill.Survivors != 0 {
		t.Fatalf("kill: %+v (%v)", k, err)
	}
}

func TestWorkspaceLiesOnTheHost(t *testing.T) {
	var root string
	s := open(t, func(c *sandbox.Config) { root = c.WorkspaceRoot })
	shell(t, s, "echo hi > f")
	found, err := filepath.Glob(filepath.Join(root, "chat-1-*", "f"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v (%v)", found, err)
	}
	if got, err := os.ReadFile(found[0]); err != nil || string(got) != "hi\n" {
		t.Errorf("read %q (%v)", got, err)
	}
}
