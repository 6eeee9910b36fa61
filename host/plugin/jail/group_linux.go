package jail

import (
	"bufio"
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
	own, files, err := ownGroup("/proc/self/cgroup", "/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	g := &Groups{Dir: filepath.Join(own, name), files: files}
	if err := os.Mkdir(g.Dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create a control group: %w", err)
	}
	if files.limit == groupsV2.limit {
		if err := errors.Join(hand(own), control(g.Dir)); err != nil {
			return nil, errors.Join(err, os.Remove(g.Dir))
		}
	}
	g.sweep()
	return g, nil
}

// ownGroup is the folder of the memory group that this process is in.
func ownGroup(groups, mounts string) (dir string, files groupFiles, err error) {
	text, err := os.ReadFile(groups)
	if err != nil {
		return "", groupFiles{}, err
	}
	var v1, v2 string
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			v1 = parts[2]
		case parts[0] == "0" && parts[1] == "":
			v2 = parts[2]
		}
	}
	if v1 != "" {
		dir, err = groupFolder(mounts, "cgroup", "memory", v1)
		return dir, groupsV1, err
	}
	if v2 == "" {
		return "", groupFiles{}, ErrNoGroups
	}
	dir, err = groupFolder(mounts, "cgroup2", "", v2)
	return dir, groupsV2, err
}

// groupFolder finds where a hierarchy is mounted, and the group in it; see proc_pid_mountinfo(5).
func groupFolder(mounts, kind, option, group string) (string, error) {
	f, err := os.Open(mounts)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, super, ok := strings.Cut(lines.Text(), " - ")
		m, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(m) < 5 || len(s) < 3 || s[0] != kind || option != "" && !slices.Contains(strings.Split(s[2], ","), option) {
			continue
		}
		if rest, err := filepath.Rel(m[3], group); err == nil && filepath.IsLocal(rest) {
			return filepath.Join(m[4], rest), nil
		}
	}
	return "", ErrNoGroups
}

// hand enables the memory controller for the children of a group of version 2. Such a group cannot contain processes, so the host moves into
// a child if it is alone in the group.
func hand(own string) error {
	err := control(own)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	inside := filepath.Join(own, "flynn-host")
	members, rerr := os.ReadFile(filepath.Join(own, groupMembers))
	switch {
	case rerr != nil || strings.TrimSpace(string(members)) != strconv.Itoa(os.Getpid()):
		return errors.New("the host is not alone in its control group")
	case os.Geteuid() == 0 && !delegated(own):
		return errors.New("systemd manages its control group: write Delegate=yes into the unit")
	}
	if err := os.Mkdir(inside, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := setGroup(inside, groupMembers, strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	return control(own)
}

// delegated reports whether systemd has delegated a group to its processes. Other users than root could not write there otherwise.
func delegated(own string) bool {
	for _, attr := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 1)
		if n, err := unix.Getxattr(own, attr, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

func control(dir string) error { return setGroup(dir, "cgroup.subtree_control", "+memory") }

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
