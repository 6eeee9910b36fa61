package sandbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
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

// noise returns n bytes that no two runs of a test find easy.
func noise(n int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{7}), n) }

func digest(t testing.TB, r io.Reader) string {
	t.Helper()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// A file larger than the container's memory goes in and comes out, and neither end holds much of it.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	s := open(t)
	const size = 200 << 20 // the container has 128 MiB
	for _, c := range []struct {
		name string
		size int64
	}{{"announced", size}, {"of unknown size", -1}} {
		t.Run(c.name, func(t *testing.T) {
			if err := s.Put(t.Context(), "a/large", noise(size), c.size, 0o600); err != nil {
				t.Fatal(err)
			}
			r, info, err := s.Open(t.Context(), "a/large")
			if err != nil {
				t.Fatal(err)
			}
			if info.Name != "large" || info.Size != size || info.Mode != 0o600 || time.Since(info.Mtime) > time.Hour {
				t.Errorf("it is %+v", info)
			}
			if got, want := digest(t, r), digest(t, noise(size)); got != want {
				t.Errorf("read %s, want %s", got, want)
			}
			if err := errors.Join(r.Close(), s.Remove(t.Context(), "a/large", false)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A failure on the way leaves the old file, and nothing else.
func TestPutFails(t *testing.T) {
	s := open(t)
	shell(t, s, "mkdir d; echo old >d/f")
	broken := errors.New("broken")
	canceled, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		r    io.Reader
		size int64
		path string
		want error // nil: any
	}{
		{"reader fails", t.Context(), io.MultiReader(noise(1<<20), iotest.ErrReader(broken)), 2 << 20, "d/f", broken},
		{"too short", t.Context(), noise(100), 200, "d/f", nil},
		{"too long", t.Context(), noise(200), 100, "d/f", nil},
		{"given up", canceled, io.MultiReader(noise(1<<20), readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })), -1, "d/f", context.Canceled},
		{"folder", t.Context(), noise(10 << 20), -1, "d", machine.ErrNotRegular},
		{"outside", t.Context(), noise(10), -1, "../f", machine.ErrOutside},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.Put(c.ctx, c.path, c.r, c.size, 0o644)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := shell(t, s, "cat d/f; ls -A . d"); got != "old\n.:\nd\n\nd:\nf\n" {
				t.Errorf("left %q", got)
			}
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A container that dies in the middle of a write leaves no piece of it.
func TestCrashLeavesNoDraft(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	s := get(t, m, "chat:1", config.Spec)
	second := false
	err := s.Put(t.Context(), "f", io.MultiReader(noise(1<<20), readerFunc(func([]byte) (int, error) {
		if second {
			return 0, io.EOF
		}
		second = true
		return 0, m.Destroy(context.WithoutCancel(t.Context()), "chat:1")
	})), -1, 0)
	if !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
	if got := shell(t, get(t, m, "chat:1", config.Spec), "ls -A"); got != "" {
		t.Errorf("left %q", got)
	}
}

// Many files that nobody reads on hold up neither each other nor anything else.
func TestIdleStreamsHoldNothingUp(t *testing.T) {
	s := open(t)
	if err := s.Put(t.Context(), "f", noise(4<<20), -1, 0); err != nil {
		t.Fatal(err)
	}
	var idle []io.ReadCloser
	for range 20 {
		r, _, err := s.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, r)
	}
	if got := shell(t, s, "echo still here"); got != "still here\n" {
		t.Errorf("printed %q", got)
	}
	if _, size, err := s.ReadFile(t.Context(), "f", 0, 1); err != nil || size != 4<<20 {
		t.Errorf("size %d (%v)", size, err)
	}
	if err := s.WriteFile(t.Context(), "g", make([]byte, 1<<20), 0); err != nil {
		t.Error(err)
	}
	for _, r := range idle[1:] {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	}
	if got, want := digest(t, idle[0]), digest(t, noise(4<<20)); got != want {
		t.Error("the one that is read in the end differs")
	}
	if err := idle[0].Close(); err != nil {
		t.Error(err)
	}
}

// A file that changes while it is read ends where it ended at first, or says that it did not.
func TestFileChangesWhileRead(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		name, script string
		want         error
	}{{"grows", "echo more >>f", nil}, {"shrinks", ": >f", io.ErrUnexpectedEOF}, {"is replaced", "echo x >g; mv g f", nil}} {
		t.Run(c.name, func(t *testing.T) {
			const size = 8 << 20
			if err := s.Put(t.Context(), "f", noise(size), size, 0); err != nil {
				t.Fatal(err)
			}
			r, _, err := s.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			shell(t, s, c.script)
			n, err := io.Copy(io.Discard, r)
			if !errors.Is(err, c.want) || err == nil && n != size {
				t.Errorf("read %d bytes, error %v, want %v", n, err, c.want)
			}
		})
	}
}

func TestStatAndRemove(t *testing.T) {
	s := open(t)
	shell(t, s, "mkdir -p d/e/f; echo 123 >d/e/f/g; ln -s d/e l; ln -s /etc out; mkfifo p; ln -s d full; chmod 750 d")
	for _, c := range []struct {
		path string
		mode fs.FileMode
		size int64
		want error
	}{
		{"d", fs.ModeDir | 0o750, -1, nil}, {"l/f/g", 0o644, 4, nil}, {"", fs.ModeDir | 0o700, -1, nil}, {"p", fs.ModeNamedPipe | 0o644, 0, nil},
		{"out", 0, 0, machine.ErrOutside}, {"nosuch", 0, 0, machine.ErrNotFound}, {"..", 0, 0, machine.ErrOutside},
	} {
		info, err := s.Stat(t.Context(), c.path)
		if !errors.Is(err, c.want) || err == nil && (info.Mode != c.mode || c.size >= 0 && info.Size != c.size) {
			t.Errorf("stat %s: %+v (%v), want %v of %d bytes, %v", c.path, info, err, c.mode, c.size, c.want)
		}
	}
	for _, c := range []struct {
		path string
		all  bool
		ok   bool
	}{
		{"d", false, false}, {"", true, false}, {"..", true, false}, {"out/passwd", false, false}, {"nosuch", false, false},
		{"out", false, true}, {"p", false, true}, {"l/f/g", false, true}, {"l/f", false, true}, {"full", true, true}, {"d", true, true},
	} {
		if err := s.Remove(t.Context(), c.path, c.all); (err == nil) != c.ok {
			t.Errorf("remove %q, all %v: %v", c.path, c.all, err)
		}
	}
	if got := shell(t, s, "ls -A"); got != "l\n" {
		t.Errorf("left %q", got)
	}
}
