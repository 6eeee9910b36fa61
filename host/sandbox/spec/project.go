package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// Main is the service where commands run.
func (s Spec) Main() (compose.Service, bool) {
	if s.Compose == nil {
		return compose.Service{}, false
	}
	return s.Compose.Service(s.Service)
}

// validateProject refuses what no driver could honour.
func (s Spec) validateProject() error {
	if s.Compose == nil {
		return nil
	}
	if _, ok := s.Main(); !ok {
		return fmt.Errorf("sandbox: %s has no service %q: set service in [sandbox] to one of %s", s.Compose.File, s.Service,
			strings.Join(s.Compose.Names(), ", "))
	}
	switch {
	case s.Dockerfile != "":
		return errors.New("sandbox: dockerfile and compose both say what the image is: remove one of them from [sandbox]")
	case s.Network == "host":
		return errors.New(`sandbox: services need a network of their own: set network in [sandbox] to none, allowlist or bridge`)
	case s.Runtime != "" && s.Runtime != "runc":
		return fmt.Errorf("sandbox: services share their network, which runtime %s does not: remove compose or runtime from [sandbox]", s.Runtime)
	}
	for _, service := range s.Compose.Services {
		if err := s.validateService(service); err != nil {
			return fmt.Errorf("sandbox: %s:%d: services.%s.%w", s.Compose.File, service.Line, service.Name, err)
		}
	}
	return nil
}

func (s Spec) validateService(service compose.Service) error {
	switch {
	case service.MemoryBytes > s.MemoryBytes:
		return errors.New("mem_limit is above memory_limit of the sandbox: lower the one or raise the other")
	case service.CPUs > s.CPUs:
		return errors.New("cpus is above cpu_limit of the sandbox: lower the one or raise the other")
	case service.PidsLimit > s.PidsLimit:
		return errors.New("pids_limit is above that of the sandbox: lower the one or raise the other")
	}
	if service.Name == s.Service {
		for _, other := range s.Compose.Services {
			if slices.Contains(other.DependsOn, compose.Dependency{Service: s.Service, Ended: true}) {
				return fmt.Errorf("depends_on: %s waits for the end of the service where commands run, which does not end: remove that", other.Name)
			}
			if slices.Contains(other.DependsOn, compose.Dependency{Service: s.Service, Healthy: true}) {
				return fmt.Errorf("healthcheck is not looked at where commands run: let %s depend on service_started", other.Name)
			}
		}
		if service.User != "" {
			return errors.New("user is not honoured where commands run: they are their workspace's owner's: remove it")
		}
		return nil // its places are judged with the sandbox's own
	}
	if err := mounts.CheckTargets("", targetsOf(service)); err != nil {
		return fmt.Errorf("volumes: %w", err)
	}
	return nil
}

func targetsOf(s compose.Service) (targets []string) {
	for _, b := range s.Binds {
		targets = append(targets, b.Target)
	}
	for _, v := range s.Volumes {
		targets = append(targets, v.Target)
	}
	for _, t := range s.Tmpfs {
		targets = append(targets, t.Target)
	}
	return targets
}

// Limits are what one service of the project may have.
func (s Spec) Limits(of compose.Service) (memory int64, cpus float64, pids int64) {
	return lower(of.MemoryBytes, s.MemoryBytes), lower(of.CPUs, s.CPUs), lower(of.PidsLimit, s.PidsLimit)
}

// lower is what a service asks for, if anything, and never more than the limit.
func lower[T cmp.Ordered](asked, limit T) T {
	return min(cmp.Or(asked, limit), limit)
}

// SharesVolume reports whether commands see a project's volume, too. Then it is theirs from the start, and the engine copies
// nothing from an image into it, because it would take over the owner as well.
func (s Spec) SharesVolume(name string) bool {
	main, _ := s.Main()
	return slices.ContainsFunc(main.Volumes, func(v compose.Volume) bool { return v.Name == name })
}

// HostMountsOf are the folders and files of the host that a service mounts.
func HostMountsOf(s compose.Service) (wanted []HostMount) {
	for _, b := range s.Binds {
		wanted = append(wanted, HostMount{Source: b.Source, Target: b.Target, Writable: !b.ReadOnly})
	}
	return wanted
}
