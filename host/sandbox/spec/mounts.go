package spec

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// HostMount is a mounted folder or file of the host.
type HostMount struct {
	Source   string // absolute
	Target   string // absolute, in the container
	Writable bool
}

// VolumeMount is a mounted volume of the engine, which outlives containers.
type VolumeMount struct {
	Name   string
	Target string
	// Shared selects one volume for all sessions; otherwise each session has its own.
	Shared   bool
	ReadOnly bool
}

// MemoryMount is a folder in memory.
type MemoryMount struct {
	Target string
	Bytes  int64
}

// validateMounts refuses what no driver could honour. Whether a source may be mounted is decided when it is mounted.
func (s Spec) validateMounts() error {
	var targets []string
	for _, m := range s.HostMounts() {
		targets = append(targets, m.Target)
	}
	main, _ := s.Main()
	for _, v := range main.Volumes {
		targets = append(targets, v.Target)
	}
	for _, v := range s.Volumes {
		if err := CheckVolumeName(v.Name); err != nil {
			return err
		}
		targets = append(targets, v.Target)
	}
	for _, t := range s.MemoryMounts() {
		if t.Bytes <= 0 {
			return fmt.Errorf("sandbox: tmpfs at %s has no size", t.Target)
		}
		targets = append(targets, t.Target)
	}
	if err := mounts.CheckTargets(s.WorkspaceDir, targets); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}

// IsPersonal reports whether the container is created for a particular session, so that none can wait in a pool.
func (s Spec) IsPersonal() bool {
	if s.Compose != nil {
		return true
	}
	for _, v := range s.Volumes {
		if !v.Shared {
			return true
		}
	}
	return false
}

// HostMounts returns the mounts of the configuration, and those of the main service of a project.
func (s Spec) HostMounts() []HostMount {
	main, _ := s.Main()
	return append(s.Mounts[:len(s.Mounts):len(s.Mounts)], HostMountsOf(main)...)
}

// MemoryMounts returns the mounts of the configuration, and those of the main service of a project.
func (s Spec) MemoryMounts() []MemoryMount {
	all := s.Tmpfs[:len(s.Tmpfs):len(s.Tmpfs)]
	main, _ := s.Main()
	for _, t := range main.Tmpfs {
		all = append(all, MemoryMount(t))
	}
	return all
}

// volumeNames matches the names of volumes in the configuration.
var volumeNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$`) })

// CheckVolumeName refuses an invalid name of a volume.
func CheckVolumeName(name string) error {
	if !volumeNames().MatchString(name) {
		return fmt.Errorf("sandbox: invalid volume name %q: use letters, digits, - and _, with a letter or digit first", name)
	}
	return nil
}
