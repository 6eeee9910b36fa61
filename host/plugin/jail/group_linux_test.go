package jail

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
	"github.com/flynnhost/flynn/sdk/need"
)

// mountinfo is what a kernel tells of the hierarchies of both versions, and of one of which a container sees a part.
const mountinfo = `25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw
31 25 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu
33 25 0:29 /docker/abc /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
`

func TestOwnGroup(t *testing.T) {
	for name, c := range map[string]struct {
		groups, dir, limit string
	}{
		"version 1":               {"4:memory:/user/a\n2:cpu:/\n", "/sys/fs/cgroup/memory/user/a", "memory.limit_in_bytes"},
		"version 1 with another":  {"4:hugetlb,memory:/a\n0::/docker/abc/x\n", "/sys/fs/cgroup/memory/a", "memory.limit_in_bytes"},
		"both":                    {"4:memory:/\n0::/docker/abc/x\n", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		"version 2":               {"0::/docker/abc/flynn.service\n", "/sys/fs/cgroup/unified/flynn.service", "memory.max"},
		"version 2 at its root":   {"0::/docker/abc\n", "/sys/fs/cgroup/unified", "memory.max"},
		"not below what is shown": {"0::/docker/other\n", "", ""},
		"none":                    {"2:cpu:/\n", "", ""},
		"nothing":                 {"", "", ""},
		"garbage":                 {"memory\n::\n\x00:memory\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			groups, mounts := filepath.Join(dir, "cgroup"), filepath.Join(dir, "mountinfo")
			if err := errors.Join(os.WriteFile(groups, []byte(c.groups), 0o600), os.WriteFile(mounts, []byte(mountinfo), 0o600)); err != nil {
				t.Fatal(err)
			}
			got, files, err := ownGroup(groups, mounts)
			if c.dir == "" {
				if err == nil {
					t.Errorf("got %s", got)
				}
				return
			}
			if err != nil || got != c.dir || files.limit != c.limit {
				t.Errorf("got %s, %s, %v, want %s, %s", got, files.limit, err, c.dir, c.limit)
			}
		})
	}
}

// TestGroupOfVersion2 has a folder in place of the kernel's: what is written where, and what is read from it.
func TestGroupOfVersion2(t *testing.T) {
	own := t.TempDir()
	if err := hand(own); err != nil {
		t.Fatal(err)
	}
	g := &Groups{Dir: own, files: groupsV2}
	m, err := g.Add("files", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": strconv.Itoa(64 << 20), "memory.swap.max": "0", "memory.oom.group": "1"} {
		if text, err := os.ReadFile(filepath.Join(m.Dir, file)); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v, want %q", file, text, err, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(own, "cgroup.subtree_control")); err != nil || string(text) != "+memory" {
		t.Errorf("handed on: %q, %v", text, err)
	}
	for events, want := range map[string]bool{"": false, "low 0\noom 3\noom_kill 0\n": false, "oom 3\noom_kill 2\noom_group_kill 1\n": true} {
		m.over = false
		if err := os.WriteFile(filepath.Join(m.Dir, "memory.events"), []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := m.Exceeded(); got != want {
			t.Errorf("%q: exceeded %t, want %t", events, got, want)
		}
	}
	if m.Occupied() {
		t.Error("an empty group is occupied")
	}
	if err := joinGroup(m.Dir); err != nil || !m.Occupied() {
		t.Errorf("joined: %v, occupied %t", err, m.Occupied())
	}
	m.kill()
	if text, err := os.ReadFile(filepath.Join(m.Dir, "cgroup.kill")); err != nil || string(text) != "1" {
		t.Errorf("cgroup.kill is %q, %v", text, err)
	}
}

// TestARealGroupOfVersion2 has a kernel's group of version 2 without the memory of it, which many systems bind to version 1: who is in it, how
// it ends, and that only an empty one is removed.
func TestARealGroupOfVersion2(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, own, ok := strings.Cut("\n"+string(text), "\n0::")
	own, _, _ = strings.Cut(own, "\n")
	parent, err := groupFolder("/proc/self/mountinfo", "cgroup2", "", own)
	if !ok || err != nil {
		need.Part(t, "control groups of version 2", ErrNoGroups)
	}
	g := &Groups{Dir: filepath.Join(parent, "flynn-test-"+strconv.Itoa(os.Getppid())), files: groupsV2}
	m := &Group{Dir: filepath.Join(g.Dir, "one"), files: groupsV2}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		need.Part(t, "control groups of version 2", err)
	}
	defer g.Close()
	sleeper := exec.Command("sh", "-c", "exec sleep 1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Wait() }()
	defer func() { _ = sleeper.Process.Kill() }()
	if m.Occupied() {
		t.Error("an empty group is occupied")
	}
	if err := setGroup(m.Dir, groupMembers, strconv.Itoa(sleeper.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	RemoveEmpty(g.Dir)
	if !m.Occupied() {
		t.Fatal("a group with a process in it is removed")
	}
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	m.kill()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v", err)
	}
	g.sweep()
	if _, err := os.Stat(m.Dir); err == nil {
		t.Error("the swept group is left")
	}
	RemoveEmpty(g.Dir)
	if _, err := os.Stat(g.Dir); err == nil {
		t.Error("the empty group is left")
	}
}
