package config

import (
	"reflect"
	"slices"
)

// Stricter reports whether other permits all that s permits: s reaches no more, has no higher limits, and is equal in all keys that cannot
// be compared. A sandbox is as strict as itself.
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

// boundedBy reports whether a is not above b; 0 is no limit.
func boundedBy(a, b Size) bool { return b == 0 || a != 0 && a <= b }

// reachesLess compares networks. The engine's bridge and the host's network are comparable with themselves only, as their hosts differ
// from machine to machine.
func (s Sandbox) reachesLess(other Sandbox) bool {
	switch {
	case s.Network == "none" || s.Network == other.Network && s.Network != "allowlist":
		return true
	case s.Network == "allowlist" && other.Network == "allowlist":
		return subset(s.Allowlist, other.Allowlist)
	}
	return false
}

// comparable returns the keys that have to be equal: all that are not compared otherwise, except those that concern no rights.
func (s Sandbox) comparable() Sandbox {
	s.Network, s.Allowlist, s.MemoryLimit, s.CPULimit, s.PidsLimit, s.TimeoutSeconds, s.EgressLimit, s.DiskLimit = "", nil, 0, 0, 0, 0, 0, 0
	s.Mounts, s.Volumes, s.Credentials, s.Bridges = nil, nil, nil, nil
	s.WarmPool, s.WarmPoolCPU, s.PauseAfter, s.IdleAfter, s.MaxAge = 0, 0, 0, 0, 0
	return s
}

// subset reports whether all contains each element of some.
func subset[T any](some, all []T) bool {
	return !slices.ContainsFunc(some, func(v T) bool {
		return !slices.ContainsFunc(all, func(o T) bool { return reflect.DeepEqual(v, o) })
	})
}
