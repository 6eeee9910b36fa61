package jail

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/cgroup"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
	"github.com/flynnhost/flynn/sdk/need"
)

// TestGroupOfVersion2 has a folder in place of the kernel's: what is written where, and what is read from it.
func TestGroupOfVersion2(t *testing.T) {
	own := t.TempDir()
	if err := cgroup.HandOn(own, "memory"); err != nil {
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
	parent, version, err := cgroup.Own("a controller of version 2 only")
	if err != nil || version != 2 {
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
