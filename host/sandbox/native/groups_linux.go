package native

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/cgroup"
	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// sparePrefix begins the names of the control groups of spare processes, before the id of the host's process.
const sparePrefix = "spare-"

// controllers are those that limit a sandbox.
var controllers = []string{"memory", "pids", "cpu"}

// groups are the control groups that this process may make, below its own: one for all sandboxes, with one for each in it. Without them, the
// number of processes is limited by a resource limit, and memory and processor time are not limited.
type groups struct {
	name    string
	dirs    map[string]string // by controller: the group for all sandboxes; one for all controllers in version 2
	unified bool
	missing map[string]error
}

func openGroups(name string) *groups {
	g := &groups{name: name, dirs: map[string]string{}, missing: map[string]error{}}
	for _, controller := range controllers {
		dir, err := g.openAgain(controller)
		if err != nil {
			g.missing[controller] = err
			continue
		}
		g.dirs[controller] = dir
		sweep(dir)
	}
	return g
}

// sweep removes the groups of the spare processes of hosts that were killed. Those of a host that runs are kept, although they can be empty.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, sparePrefix+"*"))
	for _, group := range left {
		host, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(group), sparePrefix), "-")
		if pid, err := strconv.Atoi(host); err == nil && unix.Kill(pid, 0) == unix.ESRCH {
			_ = unix.Rmdir(group)
		}
	}
}

// openTries bounds how often the group for all sandboxes is made. Another process, such as a command that looks at sandboxes, removes it when
// it ends and the group is empty.
const openTries = 10

// openAgain opens the group for all sandboxes, which another process may remove meanwhile.
func (g *groups) openAgain(controller string) (dir string, err error) {
	for range openTries {
		if dir, err = g.open(controller, g.name); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return dir, err
}

func (g *groups) open(controller, name string) (string, error) {
	own, version, err := cgroup.Own(controller)
	if err != nil {
		return "", err
	}
	g.unified = version == 2
	dir := filepath.Join(own, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if g.unified {
		if err := errors.Join(cgroup.HandOn(own, controller), cgroup.HandOn(dir, controller)); err != nil {
			return "", err
		}
	}
	trial := filepath.Join(dir, "trial-"+strconv.Itoa(os.Getpid())) // the folder may be another user's
	if err := os.Mkdir(trial, 0o755); err != nil {
		return "", err
	}
	return dir, unix.Rmdir(trial)
}

// close removes the groups for all sandboxes, which the kernel refuses while one is in them.
func (g *groups) close() {
	for _, dir := range g.dirs {
		_ = unix.Rmdir(dir)
	}
}

// lacks returns the limits that cannot be held. A resource limit bounds the number of processes in any case.
func (g *groups) lacks() (out []driver.Lack) {
	for _, l := range []struct {
		controller string
		limit      driver.Limit
	}{{"memory", driver.MemoryLimit}, {"cpu", driver.CPULimit}} {
		if err := g.missing[l.controller]; err != nil {
			out = append(out, driver.Lack{Limit: l.limit, Why: err.Error()})
		}
	}
	return out
}

func write(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
}

// group is the control groups of one sandbox.
type group struct {
	dirs    map[string]string
	unified bool
}

// cpuPeriod is the length of a period of processor time, in microseconds.
const cpuPeriod = 100_000

// add makes the groups of a sandbox.
func (g *groups) add(id string, c driver.Container) (*group, error) {
	own := &group{dirs: map[string]string{}, unified: g.unified}
	for controller, parent := range g.dirs {
		dir := filepath.Join(parent, id)
		err := os.Mkdir(dir, 0o755)
		for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < openTries; tries++ {
			if _, err = g.openAgain(controller); err == nil {
				err = os.Mkdir(dir, 0o755)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("limit a sandbox: %w", err)
		}
		own.dirs[controller] = dir
		for _, set := range settings(controller, g.unified, c) {
			if err := write(dir, set.file, set.value); err != nil && !set.optional {
				g.remove(id)
				return nil, fmt.Errorf("limit a sandbox: %w", err)
			}
		}
	}
	return own, nil
}

// setting is one file of a group. An optional one is not in every kernel.
type setting struct {
	file, value string
	optional    bool
}

func settings(controller string, unified bool, c driver.Container) []setting {
	memory, pids := strconv.FormatInt(c.MemoryBytes, 10), strconv.FormatInt(c.PidsLimit+driver.OwnTasks, 10)
	quota := strconv.FormatInt(int64(c.CPUs*cpuPeriod), 10)
	switch {
	case controller == "memory" && c.MemoryBytes <= 0, controller == "pids" && c.PidsLimit <= 0, controller == "cpu" && c.CPUs <= 0:
		return nil
	case controller == "memory" && unified:
		return []setting{{"memory.max", memory, false}, {"memory.swap.max", "0", true}}
	case controller == "memory":
		return []setting{{"memory.limit_in_bytes", memory, false}, {"memory.memsw.limit_in_bytes", memory, true}}
	case controller == "pids":
		return []setting{{"pids.max", pids, false}}
	case unified:
		return []setting{{"cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod), false}}
	}
	return []setting{{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod), false}, {"cpu.cfs_quota_us", quota, false}}
}

// open opens what a process needs to join the groups: files to write to, and a group of version 2 in which it can start.
func (g *group) open() (members []*os.File, folder *os.File, err error) {
	member := "tasks" // unlike that of all threads, it needs no lock of the whole system
	if g.unified {
		member = "cgroup.procs"
	}
	for _, dir := range slices.Compact(slices.Sorted(maps.Values(g.dirs))) {
		f, err := os.OpenFile(filepath.Join(dir, member), os.O_WRONLY, 0)
		if err == nil {
			members = append(members, f)
		}
		if err == nil && g.unified {
			folder, err = os.Open(dir)
		}
		if err != nil {
			closeFiles(append(members, folder)...)
			return nil, nil, fmt.Errorf("limit a sandbox: %w", err)
		}
	}
	return members, folder, nil
}

// shown are the folders whose counters the sandbox may read, by their name below /sys/fs/cgroup.
func (g *group) shown() map[string]string {
	if g.unified {
		for _, dir := range g.dirs {
			return map[string]string{"": dir}
		}
	}
	return g.dirs
}

// emptyGrace is how long the kernel may hold a group whose last process was reaped.
const emptyGrace = time.Second

// remove removes the groups of a sandbox, whose processes have ended.
func (g *groups) remove(id string) {
	for _, parent := range g.dirs {
		dir := filepath.Join(parent, id)
		for late := time.Now().Add(emptyGrace); time.Now().Before(late); time.Sleep(time.Millisecond) {
			if err := unix.Rmdir(dir); err == nil || !errors.Is(err, unix.EBUSY) {
				break
			}
		}
	}
}
