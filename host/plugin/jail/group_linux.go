package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/cgroup"
)

// Groups is the host's own part of the tree of control groups, version 1 or 2, with a group for each process. A group limits the memory that
// a process and all its children really use, which no resource limit does.
type Groups struct {
	Dir   string
	files groupFiles

	mu   sync.Mutex
	made int
}

// groupFiles are the names of a version's files.
type groupFiles struct {
	limit  string
	strict map[string]string // further settings, which a kernel may lack
	events string            // has a line "oom_kill N"
	kill   string            // kills everything in a group; empty in version 1
}

var (
	groupsV1 = groupFiles{limit: "memory.limit_in_bytes", events: "memory.oom_control"}
	groupsV2 = groupFiles{
		limit: "memory.max", strict: map[string]string{"memory.swap.max": "0", "memory.oom.group": "1"}, events: "memory.events", kill: "cgroup.kill",
	}
)

// groupMembers are the processes of a group, in both versions.
const groupMembers = "cgroup.procs"

// OpenGroups creates the host's part of the tree, with that name, below the group that the host is in.
func OpenGroups(name string) (*Groups, error) {
	own, version, err := cgroup.Own("memory")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoGroups, err)
	}
	g := &Groups{Dir: filepath.Join(own, name), files: groupsV1}
	if version == 2 {
		g.files = groupsV2
	}
	if err := os.Mkdir(g.Dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create a control group: %w", err)
	}
	if version == 2 {
		if err := errors.Join(cgroup.HandOn(own, "memory"), cgroup.HandOn(g.Dir, "memory")); err != nil {
			return nil, errors.Join(err, os.Remove(g.Dir))
		}
	}
	g.sweep()
	return g, nil
}

func setGroup(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
}

// sweep kills the processes that a killed host left in its groups, and removes the groups.
func (g *Groups) sweep() {
	old, _ := os.ReadDir(g.Dir)
	for _, e := range old {
		if e.IsDir() {
			(&Group{Dir: filepath.Join(g.Dir, e.Name()), files: g.files}).Remove()
		}
	}
}

// Beside is the folder of another host's groups; empty if there is none of that name.
func (g *Groups) Beside(name string) string {
	dir := filepath.Join(filepath.Dir(g.Dir), name)
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// RemoveEmpty removes a host's group and its children if they have no processes: the kernel refuses to remove others.
func RemoveEmpty(group string) {
	inside, _ := os.ReadDir(group)
	for _, e := range inside {
		if e.IsDir() {
			_ = unix.Rmdir(filepath.Join(group, e.Name()))
		}
	}
	_ = unix.Rmdir(group)
}

// Close removes the host's part of the tree.
func (g *Groups) Close() {
	g.sweep()
	_ = os.Remove(g.Dir)
}

// Add makes a group for a process.
func (g *Groups) Add(name string, limit int64) (*Group, error) {
	g.mu.Lock()
	g.made++
	m := &Group{Dir: filepath.Join(g.Dir, fmt.Sprintf("%s-%d-%d", name, os.Getpid(), g.made)), files: g.files}
	g.mu.Unlock()
	if err := os.Mkdir(m.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := setGroup(m.Dir, g.files.limit, strconv.FormatInt(limit, 10)); err != nil {
		return nil, errors.Join(err, os.Remove(m.Dir))
	}
	for file, value := range g.files.strict {
		_ = setGroup(m.Dir, file, value)
	}
	return m, nil
}

// Group bounds the memory of one process and of everything that it starts.
type Group struct {
	Dir   string
	files groupFiles

	mu   sync.Mutex
	gone bool
	over bool
}

// joinGroup puts this process into the group in dir.
func joinGroup(dir string) error { return setGroup(dir, groupMembers, "0") }

// Occupied reports whether a process is in the group.
func (m *Group) Occupied() bool {
	text, err := os.ReadFile(filepath.Join(m.Dir, groupMembers))
	return err == nil && len(text) > 0
}

// Exceeded reports whether the kernel has killed a process in the group because of its memory.
func (m *Group) Exceeded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return m.over
	}
	text, _ := os.ReadFile(filepath.Join(m.Dir, m.files.events))
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
			m.over = true
		}
	}
	return m.over
}

// groupTime is how long the last processes of a group may take to end.
const groupTime = 200 * time.Millisecond

// Remove kills what is left in the group, even if it has left the plugin's process group, and removes the group. If the kernel holds a
// process in it, the group stays until the next host sweeps it.
func (m *Group) Remove() {
	m.Exceeded()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	m.gone = true
	for late := time.Now().Add(groupTime); os.Remove(m.Dir) != nil && time.Now().Before(late); {
		m.kill()
		time.Sleep(5 * time.Millisecond) // there is no event for the end of the last one
	}
}

// kill ends every process in the group.
func (m *Group) kill() {
	if m.files.kill != "" {
		_ = setGroup(m.Dir, m.files.kill, "1")
		return
	}
	for _, pid := range m.members() {
		if p, err := unix.PidfdOpen(pid, 0); err == nil {
			if slices.Contains(m.members(), pid) { // the pid was not reused since
				_ = unix.PidfdSendSignal(p, unix.SIGKILL, nil, 0)
			}
			_ = unix.Close(p)
		}
	}
}

// members are the processes in the group that are visible to this one.
func (m *Group) members() []int {
	text, _ := os.ReadFile(filepath.Join(m.Dir, groupMembers))
	var out []int
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}
