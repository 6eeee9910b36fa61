package plugin

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Bounds on the memory of a process, in bytes. A Go program stays near run.memory, which it gets as GOMEMLIMIT; one that uses twice as much
// leaks, or ignores that limit, and is killed before the machine suffers.
const (
	defaultMemory = 512 << 20 // of plugins without run.memory
	memoryFactor  = 2
)

// hardLimit is the memory that a process of m may use.
func (i Instance) hardLimit(m Manifest) int64 {
	if i.Grant.Memory > 0 {
		return i.Grant.Memory
	}
	if m.Run.Memory > 0 {
		return memoryFactor * int64(m.Run.Memory)
	}
	return memoryFactor * defaultMemory
}

// weighed reports whether a control group limits the process's memory.
func (r *running) weighed() bool { return r.group != nil && r.group.Occupied() }

// weigh kills the process when it uses more memory than it may. It returns when the process is gone or about to be ended.
func (r *running) weigh() {
	limit := r.instance.hardLimit(r.manifest)
	tick := time.NewTicker(max(r.timeouts.healthEvery/10, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.exited():
			return
		case <-r.stdioOn.Done():
			return
		}
		used, known := privateMemory(r.pid())
		if !known {
			return // unknown on this system
		}
		if used > limit {
			r.tooHeavy.Store(&heavy{used, limit})
			r.runner.kill()
			return
		}
	}
}

// heavy is the error of a process that used too much memory.
type heavy struct{ used, limit int64 }

func (h *heavy) Error() string {
	return fmt.Sprintf("the process was ended: it used %d MiB of memory, at most %d MiB (memory_limit of its instance, or twice run.memory of plugin.toml)", h.used>>20, h.limit>>20)
}

// privateMemory is a process's private memory, in bytes: its resident pages without those that are shared or backed by files.
func privateMemory(pid int) (_ int64, known bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, false
	}
	var size, resident, shared int64
	if _, err := fmt.Fscan(strings.NewReader(string(text)), &size, &resident, &shared); err != nil {
		return 0, false
	}
	return (resident - shared) * int64(os.Getpagesize()), true
}
