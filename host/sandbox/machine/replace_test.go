package machine_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// A daemon that is root leaves files and folders to whom the workspace belongs: a sandbox may share it.
func TestRootKeepsOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	for path, uid := range map[string]int{dir: 1000, filepath.Join(dir, "other"): 1001} {
		if path != dir {
			if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(path, uid, uid+1); err != nil {
			t.Fatal(err)
		}
	}
	h := openHost(t, machine.HostConfig{Workspace: dir})
	for _, c := range []struct {
		path string
		uid  uint32
		mode uint32
	}{{"new", 1000, 0o644}, {"a/b/new", 1000, 0o644}, {"a/b", 1000, 0o755}, {"other", 1001, 0o640}} {
		if c.path != "a/b" {
			if err := h.WriteFile(t.Context(), c.path, []byte("x"), 0); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Lstat(filepath.Join(dir, c.path))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != c.uid || st.Gid != c.uid+1 || uint32(st.Mode)&0o777 != c.mode {
			t.Errorf("%s belongs to %d:%d with mode %o; want %d:%d and %o", c.path, st.Uid, st.Gid, st.Mode, c.uid, c.uid+1, c.mode)
		}
	}
}
