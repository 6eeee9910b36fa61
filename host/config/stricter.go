package config

import (
	"reflect"
	"slices"
)

// Stricter reports whether whatever s lets a command do other does too: it reaches no more, has no more to use up, and differs in
// nothing of which that could not be told. A sandbox is as strict as itself.
func (s Sandbox) Stricter(other Sandbox) bool {
	switch {
	case !s.reachesLess(other):
		return false
	case s.MemoryLimit > other.MemoryLimit || s.CPULimit > other.CPULimit || s.PidsLimit > other.PidsLimit || s.TimeoutSeconds > other.TimeoutSeconds:
		return false
	case s.EgressLimit > other.EgressLimit || !boundedBy(s.DiskLimit, other.DiskLimit):
		return false
	case !subset(s.Mounts, other.Mounts) || !subset(s.Volumes, other.Volumes) || !subset(s.Credentials, other.Credentials) ||
		!subset(s.Bridges, other.Bridges):
		return false
	}
	return reflect.DeepEqual(s.comparable(), other.comparable())
}

// boundedBy compares limits of which 0 is none.
func boundedBy(a, b Size) bool { return b == 0 || a != 0 && a <= b }

// reachesLess compares networks. The engine's bridge and the host's network are each only within themselves: what lies on them
// differs from machine to machine.
func (s Sandbox) reachesLess(other Sandbox) bool {
	switch {
	case s.Network == "none" || s.Network == other.Network && s.Network != "allowlist":
		return true
	case s.Network == "allowlist" && other.Network == "allowlist":
		return subset(s.Allowlist, other.Allowlist)
	}
	return false
}

// comparable is what has to be the same in two sandboxes, one of which is stricter: all that was not compared, but for what is
// no matter of rights.
func (s Sandbox) comparable() Sandbox {
	s.Network, s.Allowlist, s.MemoryLimit, s.CPULimit, s.PidsLimit, s.TimeoutSeconds, s.EgressLimit, s.DiskLimit = "", nil, 0, 0, 0, 0, 0, 0
	s.Mounts, s.Volumes, s.Credentials, s.Bridges = nil, nil, nil, nil
	s.WarmPool, s.WarmPoolCPU, s.PauseAfter, s.IdleAfter, s.MaxAge = 0, 0, 0, 0, 0
	return s
}

// subset reports whether each of some is exactly so among all.
func subset[T any](some, all []T) bool {
	return !slices.ContainsFunc(some, func(v T) bool {
		return !slices.ContainsFunc(all, func(o T) bool { return reflect.DeepEqual(v, o) })
	})
}
