//go:build portable || !linux

package machine

import (
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/ps"
)

// Weak returns what Host does not guarantee on this system.
func Weak() []string {
	if _, err := ps.Own(); err != nil {
		return []string{"a process that leaves the session of its command outlives it: this system does not list processes"}
	}
	return []string{"a process that leaves the session of its command and loses its parent within " + followEvery.String() +
		" can outlive it if the system hides its environment, as macOS does for its own programs"}
}

// found are the processes of a command that some walk has found. Where a system hides the environment of a process, only its parents show to
// whom it belongs, and only until they end.
type found struct {
	mu      sync.Mutex
	started map[int]int64 // by pid
}

// watch waits for the leader's exit without reaping it, where the system can.
func (r *running) watch() {
	defer close(r.exited)
	go r.follow() // ends with the leader
	if ps.AwaitExit(r.cmd.Process.Pid) != nil {
		_ = r.cmd.Wait()
	}
}

// followEvery is the time between two walks while a command runs.
const followEvery = 100 * time.Millisecond

// follow looks for processes that leave the session while their parents still show where they come from.
func (r *running) follow() {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.exited:
			return
		case <-tick.C:
			r.members()
		}
	}
}

// members finds the live processes of the command: those of its session, their descendants, and those that carry its marker. It returns
// nothing if the system does not list processes: then there is only the process group, which is signalled as a whole.
func (f *found) members(r *running) []member {
	all, _ := ps.Own()
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.pick(all, r.cmd.Process.Pid, r.hasMarker)
	var out []member
	for _, p := range all {
		if _, ours := known[p.PID]; ours {
			out = append(out, member{pid: p.PID, group: p.Group})
		}
	}
	return out
}

// pick updates the found processes of the command whose leader is given from a list of all.
func (f *found) pick(all []ps.Process, leader int, marked func(pid int) bool) map[int]int64 {
	known := map[int]int64{}
	for _, p := range all {
		if was, ok := f.started[p.PID]; p.Session == leader || ok && was == p.Started || marked(p.PID) {
			known[p.PID] = p.Started
		}
	}
	for again := true; again; {
		again = false
		for _, p := range all {
			_, parent := known[p.Parent]
			if _, ours := known[p.PID]; parent && !ours {
				known[p.PID], again = p.Started, true
			}
		}
	}
	f.started = known
	return known
}

// inspect checks whether a process is alive and belongs to the command.
func (r *running) inspect(pid int) (member, bool) {
	members := r.members()
	i := slices.IndexFunc(members, func(m member) bool { return m.pid == pid })
	if i < 0 {
		return member{}, false
	}
	return members[i], true
}
