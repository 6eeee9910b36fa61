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

// Main returns the service where commands run.
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
		return errors.New("sandbox: dockerfile and compose both determine the image: remove one of them from [sandbox]")
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
				return fmt.Errorf("depends_on: %s waits for the end of the service where commands run, which does not end: remove the dependency", other.Name)
			}
			if slices.Contains(other.DependsOn, compose.Dependency{Service: s.Service, Healthy: true}) {
				return fmt.Errorf("healthcheck is ignored for the service where commands run: let %s depend on service_started", other.Name)
			}
		}
		if service.User != "" {
			return errors.New("user is ignored for the service where commands run, because they run as the workspace's owner: remove it")
		}
		return nil // its mounts are checked with the sandbox's own
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

// Limits returns the limits of one service of the project.
func (s Spec) Limits(of compose.Service) (memory int64, cpus float64, pids int64) {
	return lower(of.MemoryBytes, s.MemoryBytes), lower(of.CPUs, s.CPUs), lower(of.PidsLimit, s.PidsLimit)
}

// lower returns what a service requests, if anything, up to the limit.
func lower[T cmp.Ordered](asked, limit T) T {
	return min(cmp.Or(asked, limit), limit)
}

// SharesVolume reports whether commands mount a project's volume, too. They own it from the start then, and the engine copies nothing from
// an image into it, because that would copy the owner as well.
func (s Spec) SharesVolume(name string) bool {
	main, _ := s.Main()
	return slices.ContainsFunc(main.Volumes, func(v compose.Volume) bool { return v.Name == name })
}

// HostMountsOf returns the folders and files of the host that a service mounts.
func HostMountsOf(s compose.Service) (wanted []HostMount) {
	for _, b := range s.Binds {
		wanted = append(wanted, HostMount{Source: b.Source, Target: b.Target, Writable: !b.ReadOnly})
	}
	return wanted
}
