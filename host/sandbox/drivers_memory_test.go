package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// metered returns what the engine counts for a sandbox without a command.
func metered(meter driver.Meter, c sandbox.Config) func(context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		owned, err := c.Driver.List(ctx, c.Instance)
		if err != nil {
			return 0, err
		}
		i := slices.IndexFunc(owned, func(o driver.Owned) bool { return o.State == "running" })
		if i < 0 {
			return 0, errors.New("no sandbox runs")
		}
		u, err := meter.Usage(ctx, owned[i].ID)
		return uint64(u.Memory), err
	}
}

// supervisorsMemory is what the supervisors below this process hold, each.
func supervisorsMemory(context.Context) (uint64, error) { return memoryOf(descendants(os.Getpid())) }

// podsMemory is the same for those in Pods of this machine.
func podsMemory(context.Context) (uint64, error) {
	var pids []int
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, group := range groups {
		text, err := os.ReadFile(group)
		pid, failed := strconv.Atoi(filepath.Base(filepath.Dir(group)))
		if err == nil && failed == nil && strings.Contains(string(text), "/kubepods") {
			pids = append(pids, pid)
		}
	}
	return memoryOf(pids)
}

// memoryOf is what the supervisors among processes hold, each: their private memory and their share of the rest.
func memoryOf(pids []int) (uint64, error) {
	var sum, n uint64
	for _, pid := range pids {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || !strings.HasPrefix(string(name), ".flynn-sandboxd") {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				kib, _ := strconv.ParseUint(f[1], 10, 64)
				sum, n = sum+kib<<10, n+1
			}
		}
	}
	if n == 0 {
		return 0, errors.New("no supervisor runs")
	}
	return sum / n, nil
}

// descendants returns the processes that a process has started, and those that these have started.
func descendants(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}
