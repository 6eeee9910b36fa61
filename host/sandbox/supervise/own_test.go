//go:build linux

package supervise

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnRefuses(t *testing.T) {
	if err := runOwn([]string{"1000", "1000", "/proc"}); err == nil || !strings.Contains(err.Error(), "only as process 1") {
		t.Errorf("outside a container: %v", err)
	}
}

func TestOwn(t *testing.T) {
	if !inside(t, 0) {
		return
	}
	for name, args := range map[string][]string{
		"no arguments": {}, "root": {"0", "0", "/proc"}, "root's group": {"5", "0", "/proc"}, "no number": {"x", "1", "/proc"},
		"no mount": {"5", "5", t.TempDir()}, "relative": {"5", "5", "proc"},
	} {
		if err := runOwn(args); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	folder := t.TempDir()
	if err := unix.Mount("volume", folder, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(folder, 0)
	for _, again := range []bool{false, true} {
		if err := own(folder, 5, 6); err != nil {
			t.Fatalf("again %v: %v", again, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(folder, &st); err != nil || st.Uid != 5 || st.Gid != 6 {
			t.Errorf("again %v: %d:%d, %v", again, st.Uid, st.Gid, err)
		}
	}
	if err := own(folder, 7, 7); err == nil || !strings.Contains(err.Error(), "belongs to user 5") {
		t.Errorf("another user's folder: %v", err)
	}
	link := t.TempDir() + "/link"
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	if err := own(link, 5, 6); err == nil {
		t.Error("a link is followed")
	}
}
