package native_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// TestSandboxesShareNothing but the view, to which none writes.
func TestSandboxesShareNothing(t *testing.T) {
	if isolate.Test(t) {
		shareNothing(t)
	}
}

// TestSandboxesOfAUserShareNothing is TestSandboxesShareNothing for a user whose commands own the view.
func TestSandboxesOfAUserShareNothing(t *testing.T) {
	if asUser(t) {
		shareNothing(t)
	}
}

func shareNothing(t *testing.T) {
	t.Helper()
	m := manager(t)
	kinds := []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}
	seen := map[string]string{}
	for _, kind := range kinds {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		seen[own] = "the host"
	}
	for _, session := range []message.WorkspaceKey{"web:one", "web:two", "web:three"} {
		s, err := m.Get(t.Context(), session, "default", small)
		if err != nil {
			t.Fatal(err)
		}
		run := func(script string) string {
			r, err := s.Exec(t.Context(), machine.Command{Script: script})
			if err != nil {
				t.Fatal(err)
			}
			return string(r.Stdout)
		}
		for _, kind := range kinds {
			name := strings.TrimSpace(run("readlink /proc/self/ns/" + kind))
			if whose, is := seen[name]; is || !strings.HasPrefix(name, kind) {
				t.Errorf("%s: %q is that of %q", session, name, whose)
			}
			seen[name] = string(session)
		}
		for _, dir := range []string{"/", "/dev", "/dev/pts", "/dev/shm", "/etc", "/home", "/run", "/sys", "/tmp", "/usr", "/var", "/.flynn"} {
			if got := run("touch " + dir + "/left 2>/dev/null; mkdir " + dir + "/folder 2>/dev/null; ls -d " + dir + "/left " + dir + "/folder 2>/dev/null | wc -l"); got != "0\n" && dir != "/tmp" && dir != "/dev/shm" {
				t.Errorf("%s writes to %s: %s", session, dir, got)
			}
		}
		if got := run("ls -A /tmp /dev/shm | grep -c '" + string(session) + "'; for d in /tmp /dev/shm; do ls $d | grep '^of-'; echo x >$d/of-" + strings.ReplaceAll(string(session), ":", "-") + "; done"); got != "0\n" {
			t.Errorf("%s finds %q", session, got)
		}
	}
}

// TestMounts: a sandbox has the folders that [sandbox] mounts, and writes to those that are for writing.
func TestMounts(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	root := t.TempDir()
	m := manager(t, func(c *sandbox.Config) {
		c.MountRules = func() mounts.Rules { return mounts.Rules{Roots: []string{root}} }
	})
	wanted := small
	for _, name := range []string{"read", "write"} {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "f"), []byte(name), 0o666)); err != nil {
			t.Fatal(err)
		}
		wanted.Mounts = append(wanted.Mounts, spec.HostMount{Source: dir, Target: "/data/" + name, Writable: name == "write"})
	}
	s, err := m.Get(t.Context(), "web:one", "default", wanted)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Exec(t.Context(), machine.Command{Script: "cd /data; cat read/f write/f; for d in . read write; do touch $d/new 2>/dev/null && echo $d; done; ls"})
	if want := "readwritewrite\nread\nwrite\n"; err != nil || string(r.Stdout) != want {
		t.Errorf("%q, want %q (%v, %s)", r.Stdout, want, err, r.Stderr)
	}
	wanted.Mounts = []spec.HostMount{{Source: "/etc", Target: "/data"}}
	if _, err := m.Get(t.Context(), "web:two", "default", wanted); err == nil || !strings.Contains(err.Error(), "not below a folder of mount_roots") {
		t.Errorf("a folder that may not be mounted: %v", err)
	}
}

// TestAViewFollowsTheHost: a file of the host that was replaced is another one in the next sandbox.
func TestAViewFollowsTheHost(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	m := manager(t)
	for i, text := range []string{"first", "second", "second"} {
		file := filepath.Join(t.TempDir(), "profile")
		if err := os.WriteFile(file, []byte("# "+text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(file, "/etc/profile", "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount("/etc/profile", unix.MNT_DETACH)
		session := message.WorkspaceKey("web:" + string(rune('a'+i)))
		s, err := m.Get(t.Context(), session, "default", small)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Exec(t.Context(), machine.Command{Script: "cat /etc/profile"}); err != nil || string(r.Stdout) != "# "+text+"\n" {
			t.Errorf("%s: %q, %v", text, r.Stdout, err)
		}
	}
}

// TestASandboxThatCannotBeSetUp says why to the reader of its stream, and one that was never started leaves nothing.
func TestASandboxThatCannotBeSetUp(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	folder := t.TempDir()
	d := open(t, folder)
	c := driver.Container{
		Key: "0123", Name: "flynn-x", Entrypoint: []string{"/usr/bin/none"}, Network: "none", BestEffort: true,
		Labels: map[string]string{driver.LabelInstance: instance},
	}
	for _, one := range []struct {
		mounts []driver.Mount
		says   string
	}{
		{nil, "execute /usr/bin/none: no such file or directory"},
		{[]driver.Mount{{Kind: driver.Memory, Target: "/etc/hosts", Bytes: 1 << 20}}, "/etc/hosts: not a directory"},
		{[]driver.Mount{{Source: folder + "/none", Target: "/x"}}, "no such file or directory"},
	} {
		c.Mounts = one.mounts
		id, err := d.Create(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := d.List(t.Context(), instance); err != nil || len(list) != 1 || list[0].State != "created" {
			t.Errorf("created: %+v, %v", list, err)
		}
		stream, err := d.Attach(t.Context(), id, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if err = d.Start(t.Context(), id); err == nil {
			_, err = io.ReadAll(stream)
		}
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%v, want %q", err, one.says)
		}
		stream.Close()
		if err := d.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	id, err := d.Create(t.Context(), c)
	if err == nil {
		err = d.Remove(t.Context(), c.Name)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(t.Context(), id); err == nil {
		t.Error("it starts although it was removed")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
