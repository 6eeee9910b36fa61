//go:build linux

package removeall

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/sdk/need"
)

// deepen makes folders in each other below dir, and calls do in each.
func deepen(t *testing.T, dir string, levels int, do func(at int)) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	for range levels {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		do(at)
		below, opened := unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		unix.Close(at)
		at, err = below, opened
	}
	unix.Close(at)
}

// fewFiles lets this process hold few more files open than it does.
func fewFiles(t *testing.T) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 2 * maxDepth
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
}

// A tree deeper than descriptors last, and than any path is long, goes with everything in it, and nothing outside it does.
func TestDeep(t *testing.T) {
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	deepen(t, dir, 2500, func(at int) {
		if err := errors.Join(unix.Symlinkat(outside, at, "link"), unix.Linkat(unix.AT_FDCWD, kept, at, "hard", 0)); err != nil {
			t.Fatal(err)
		}
	})
	fewFiles(t)
	if err := os.RemoveAll(dir); !errors.Is(err, unix.EMFILE) {
		t.Fatalf("the control: os.RemoveAll says %.100v", err)
	}
	if err := Folder(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	if p, err := os.ReadFile(kept); err != nil || string(p) != "kept" {
		t.Errorf("outside there is %q (%v)", p, err)
	}
}

// A file is removed as well, and a missing path is no error.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(in("file"), nil, 0o600), os.Symlink(dir, in("link")), unix.Mkfifo(in("pipe"), 0o600), os.Mkdir(in("empty"), 0)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link", "pipe", "empty", "missing", "missing/f"} {
		if err := Folder(in(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
	if err := Folder("/proc/self"); err == nil || strings.Count(err.Error(), "/proc/self") != 1 {
		t.Errorf("what cannot be removed: %v", err)
	}
}

// An owner who has taken every right from himself has made nothing that stays.
func TestRightsTakenAway(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Part(t, "owner", errors.New("a folder that its owner may not enter is made by root, for another user"))
	}
	const user = 1000
	parent := t.TempDir()
	dir := filepath.Join(parent, "tree")
	at := dir
	for range maxDepth + 3 {
		if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "f"), nil, 0)); err != nil {
			t.Fatal(err)
		}
		at = filepath.Join(at, "d")
	}
	for at = filepath.Dir(at); at != filepath.Dir(parent); at = filepath.Dir(at) {
		mode := os.FileMode(0)
		if at == parent {
			mode = 0o700
		}
		if err := errors.Join(os.Chown(at, user, user), os.Chmod(at, mode)); err != nil {
			t.Fatal(err)
		}
	}
	handle, err := os.Open(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	asUser(user, func() { err = Tree(int(handle.Fd()), "tree", nil) })
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
}

// asUser runs do with a user's rights to files, on a thread that nobody uses afterwards.
func asUser(user uintptr, do func()) {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread()
		unix.RawSyscall(unix.SYS_SETFSUID, user, 0, 0)
		do()
	})
	done.Wait()
}

var errEnough = errors.New("enough")

// Somebody who goes on making entries cannot keep it at work for longer than its caller wants.
func TestStop(t *testing.T) {
	parent := t.TempDir()
	if err := os.MkdirAll(filepath.Join(parent, "tree", "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	handle, err := os.Open(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	entries := 0
	err = Tree(int(handle.Fd()), "tree", func() error {
		if entries++; entries > 2000 {
			return errEnough
		}
		return os.WriteFile(filepath.Join(parent, "tree", fresh(entries)), nil, 0o600) // one for each that goes
	})
	if err != errEnough || entries != 2001 {
		t.Errorf("it ended after %d entries: %v", entries, err)
	}
}

func fresh(n int) string { return "f" + strconv.Itoa(n) }
