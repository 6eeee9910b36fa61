// Package spec describes a sandbox: image, mounts, network, limits, credentials, bridged commands and services.
//
// Start with Spec, which is plain data: Check refuses what no driver could honour, and Hash identifies interchangeable containers. The
// package imports nothing that creates, runs or removes containers.
package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// Spec describes a sandbox. Zero values stand for the defaults, except for Image. It is plain data: containers whose specifications have
// the same JSON are interchangeable, so it excludes secrets and everything that does not concern the container.
type Spec struct {
	Image string
	// WorkspaceDir is the workspace's absolute path in the container; /workspace by default.
	WorkspaceDir string
	// Network is none, bridge, host, or allowlist, which is none with a proxy to what Allowlist names; none by default.
	Network string
	// Allowlist has entries as netaddr.ParseRule parses them. It is used with Network allowlist only.
	Allowlist []string
	// MemoryBytes limits memory and swap together; 512 MiB by default.
	MemoryBytes int64
	// CPUs is the number of cores; 1 by default.
	CPUs float64
	// PidsLimit limits the processes and threads of all commands together; 256 by default.
	PidsLimit int64
	// BestEffort leaves out limits that the engine cannot hold, instead of refusing to run.
	BestEffort bool `json:"-"`
	// Requires are features of the engine without which no container is made, and Prefers those without which one is made all the same.
	Requires, Prefers []driver.Feature `json:"-"`
	// Timeout ends a command that sets none; 5 minutes by default.
	Timeout time.Duration `json:"-"`
	// Runtime names another OCI runtime of the engine, such as runsc.
	Runtime string
	// Packages and Binaries are added to Image, once; see image.Recipe.
	Packages []string
	Binaries []image.Binary
	// Dockerfile is built instead of using Image, with BuildContext or its own folder as the context. Both are absolute.
	Dockerfile, BuildContext string
	// BuildNetwork is the network of the image's build: none, bridge or host; bridge by default.
	BuildNetwork string `json:"-"`
	// Mounts are folders and files of the host, which the current mount rules must allow.
	Mounts []HostMount
	// Volumes are stored by the engine.
	Volumes []VolumeMount
	// Tmpfs are folders in memory, which count towards MemoryBytes.
	Tmpfs []MemoryMount
	// Start is a command line to run beside the session's commands: nil for none, empty for the image's own.
	Start []string
	// Credentials are added to requests to their hosts. EgressLimit bounds the bytes that a container's connections carry together; 10 GiB
	// by default. Both are used with Network allowlist only.
	Credentials []Credential
	EgressLimit int64
	// Workspace is the container's access to the session's workspace: "" to write, "ro", or "none" for a separate folder.
	Workspace string
	// Bridges are commands that run in a second container.
	Bridges []Bridge
	// Helpers lets programs of code runs call helper functions.
	Helpers bool `json:",omitempty"`
	// Compose is a project that is started for each session. Service is the service where commands run: its image and settings are used for
	// the container.
	Compose *compose.Project
	Service string
	// DiskBytes limits the size of the workspace; 0 means no limit. The supervisor checks it while commands run. An excess ends them, and
	// nothing more can be written until something is deleted, so the limit can be exceeded once, by what is written before the check.
	DiskBytes int64
	// DiskEntries limits the number of files and folders if DiskBytes is set; 200000 by default.
	DiskEntries int64
}

// WithDefaults returns a copy with the defaults filled in.
func (s Spec) WithDefaults() Spec {
	s.WorkspaceDir = cmp.Or(s.WorkspaceDir, "/workspace")
	s.Network = cmp.Or(s.Network, "none")
	if s.Network == Allowlist {
		s.EgressLimit = cmp.Or(s.EgressLimit, 10<<30)
	} else {
		s.Allowlist, s.Credentials, s.EgressLimit = nil, nil, 0
	}
	s.MemoryBytes = cmp.Or(s.MemoryBytes, 512<<20)
	s.CPUs = cmp.Or(s.CPUs, 1)
	s.PidsLimit = cmp.Or(s.PidsLimit, 256)
	s.DiskEntries = cmp.Or(s.DiskEntries, 200_000)
	s.Timeout = cmp.Or(s.Timeout, 5*time.Minute)
	if main, ok := s.Main(); ok { // it may request less than the sandbox has
		s.Image = main.Image
		s.MemoryBytes, s.CPUs, s.PidsLimit = s.Limits(main)
	}
	return s
}

// Unfiltered reports whether containers may do without a filter of system calls.
func (s Spec) Unfiltered() bool {
	return slices.Contains(s.Prefers, driver.Seccomp) && !slices.Contains(s.Requires, driver.Seccomp)
}

// GVisor is the runtime that puts its own kernel between the workload and the machine's.
const GVisor = "runsc"

// minMemory is what the supervisor and a shell need.
const minMemory = 16 << 20

// Check refuses what no driver could honour, as far as it can be decided without one.
func (s Spec) Check() error { return s.WithDefaults().validate() }

// validate refuses what no driver could honour.
func (s Spec) validate() error {
	switch {
	case s.Image == "" && s.Dockerfile == "":
		return fmt.Errorf("sandbox: no image is configured; set image in [sandbox]")
	case s.Network == Allowlist && len(s.Allowlist) == 0:
		return fmt.Errorf(`sandbox: network "allowlist" needs an allowlist, such as ["registry.npmjs.org:443"]`)
	case !slices.Contains([]string{"none", "bridge", "host", Allowlist}, s.Network):
		return fmt.Errorf("sandbox: network %q is not one of none, bridge, host, allowlist", s.Network)
	case s.MemoryBytes < minMemory:
		return fmt.Errorf("sandbox: memory_limit of %d bytes is below %d", s.MemoryBytes, minMemory)
	case s.CPUs < 0.01:
		return fmt.Errorf("sandbox: cpu_limit %v is below 0.01", s.CPUs)
	case s.PidsLimit < 1:
		return fmt.Errorf("sandbox: pids_limit %d is below 1", s.PidsLimit)
	case s.DiskBytes < 0 || s.DiskEntries < 1:
		return fmt.Errorf("sandbox: disk_limit of %d bytes and %d entries is not valid; 0 bytes means no limit", s.DiskBytes, s.DiskEntries)
	case s.Timeout < 0:
		return fmt.Errorf("sandbox: timeout %v is negative", s.Timeout)
	}
	if err := mounts.CheckWorkspace(s.WorkspaceDir); err != nil {
		return fmt.Errorf("sandbox: workspace_dir %w", err)
	}
	if _, err := netaddr.ParseRules(s.Allowlist); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if _, err := s.ParseCredentials(nil); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := s.validateBridges(); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if !slices.Contains([]string{workspaceWritable, WorkspaceReadOnly, WorkspaceOwn}, s.Workspace) {
		return fmt.Errorf("sandbox: workspace %q is not one of ro, none", s.Workspace)
	}
	if err := s.Recipe().Validate(); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := s.validateProject(); err != nil {
		return err
	}
	return s.validateMounts()
}

// Allowlist is the network of containers that have only a proxy.
const Allowlist = "allowlist"

// DriverNetwork returns the network that the driver gives the container.
func (s Spec) DriverNetwork() string {
	if s.Network == Allowlist {
		return "none"
	}
	return s.Network
}

// Digest identifies what sandboxes of a specification are made of, for approvals of calls in one.
func (s Spec) Digest() string { return s.WithDefaults().Hash("") }

// Hash identifies interchangeable containers.
func (s Spec) Hash(supervisor string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("sandbox: a specification is plain data: " + err.Error())
	}
	sum := sha256.Sum256(append(text, supervisor...))
	return hex.EncodeToString(sum[:8])
}

// Recipe returns the recipe of the specification's image.
func (s Spec) Recipe() image.Recipe {
	return image.Recipe{
		Image: s.Image, Packages: s.Packages, Binaries: s.Binaries, Dockerfile: s.Dockerfile, Context: s.BuildContext, Network: s.BuildNetwork,
	}
}

// CodeSpec returns the specification for code runs: the image of base, no network, low limits.
func CodeSpec(base Spec) Spec {
	return Spec{
		Image: base.Image, Packages: base.Packages, Binaries: base.Binaries,
		Dockerfile: base.Dockerfile, BuildContext: base.BuildContext, BuildNetwork: base.BuildNetwork,
		Runtime: base.Runtime, WorkspaceDir: base.WorkspaceDir,
		Network: "none", MemoryBytes: 512 << 20, CPUs: 1, PidsLimit: 100, Timeout: 30 * time.Second,
	}.WithDefaults()
}
