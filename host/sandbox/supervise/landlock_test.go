//go:build linux

package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/sdk/need"
)

// open folders for everybody, behind a wall and in front of it.
func folders(t *testing.T) (within, without string) {
	t.Helper()
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 || version == 0 {
		need.Part(t, "landlock", errors.New("this kernel has no Landlock"))
	}
	dir, err := os.MkdirTemp("", "wall") // below it everybody may look
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	within, without = filepath.Join(dir, "within"), filepath.Join(dir, "without")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(within, 0o777), os.Mkdir(without, 0o777), os.Chmod(within, 0o777), os.Chmod(without, 0o777)); err != nil {
		t.Fatal(err)
	}
	return within, without
}

// TestWall: a thread behind a wall writes there and nowhere else, and another thread is not restricted.
func TestWall(t *testing.T) {
	within, without := folders(t)
	file := filepath.Join(without, "file")
	if err := os.WriteFile(file, []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_CLOEXEC
	try := func(path string, flags int) error {
		fd, err := unix.Open(path, flags, 0o666)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it ends with the test
		if err := (wall{within, file}).enclose(); err != nil {
			t.Errorf("%v", err)
			return
		}
		for path, want := range map[string]error{within + "/new": nil, file: nil, without + "/new": unix.EACCES, os.DevNull: nil} {
			if err := try(path, flags); err != want {
				t.Errorf("write %s: %v, want %v", path, err, want)
			}
		}
		if err := try(without, unix.O_RDONLY); err != nil {
			t.Errorf("read: %v", err)
		}
		if err := (wall{without + "/none"}).enclose(); !errors.Is(err, unix.ENOENT) {
			t.Errorf("a wall around nothing: %v", err)
		}
	}()
	<-done
	if err := try(without+"/new", flags); err != nil {
		t.Errorf("another thread: %v", err)
	}
}

// TestCommandsBehindAWall write there and nowhere else, and the supervisor, which is in front of it, ends them.
func TestCommandsBehindAWall(t *testing.T) {
	within, without := folders(t)
	if !inside(t, 0) {
		return
	}
	s := newTestSupervisor(t, within)
	c := s.startTest(t, "echo x >"+within+"/new && ! echo x >"+without+"/new")
	<-c.exited
	if n := c.status.ExitStatus(); n != 0 {
		t.Errorf("it ends with %d", n)
	}
	if _, err := os.Stat(without + "/new"); err == nil {
		t.Error("a command wrote in front of the wall")
	}
	for _, end := range []func(*child) int{func(c *child) int { return s.endUser(c.tag) }, func(c *child) int { return s.end(c).Survivors }} {
		c := s.startTest(t, "setsid sleep 100 & sleep 100")
		poll(30*time.Second, func() bool { return len(s.scanner.find(tagIs(c.tag))) >= 3 })
		if left := s.gone(end(c), tagIs(c.tag)); left != 0 {
			t.Errorf("%d are left", left)
		}
		<-c.exited
	}
}
