// Package spec describes a sandbox: image, mounts, network, limits, credentials, bridged commands and services.
//
// Start with Spec, which is plain data: Check refuses what no driver could honour, Hash names the containers that can stand in for each
// other. It makes nothing, and imports nothing of what makes, runs or removes containers.
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
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// Spec says what a sandbox is made of. Its zero value is the default of every field but Image. It is plain data: containers
// whose specifications have the same JSON can stand in for each other, so what does not concern the container, and every
// secret, is left out of it.
type Spec struct {
	Image string
	// WorkspaceDir is the workspace's absolute path inside. /workspace
	WorkspaceDir string
	// Network is none, bridge, host, or allowlist: none, with a proxy to what Allowlist names. none
	Network string
	// Allowlist has entries as netaddr.ParseRule reads them. It counts for Network allowlist only.
	Allowlist []string
	// MemoryBytes limits memory and swap together. 512 MiB
	MemoryBytes int64
	// CPUs is a number of cores. 1
	CPUs float64
	// PidsLimit is how many processes and threads commands may have together. 256
	PidsLimit int64
	// Timeout ends a command that names none of its own. 5 minutes
	Timeout time.Duration `json:"-"`
	// Runtime names another OCI runtime of the engine, such as runsc.
	Runtime string
	// Packages and Binaries are put on top of Image, once; see image.Recipe.
	Packages []string
	Binaries []image.Binary
	// Dockerfile is built instead of taking Image, with BuildContext or the folder that it lies in. Both are absolute.
	Dockerfile, BuildContext string
	// BuildNetwork is what the making of the image reaches: none, bridge or host. bridge
	BuildNetwork string `json:"-"`
	// Mounts are folders and files of the host; the rules of the moment say which may be.
	Mounts []HostMount
	// Volumes are kept by the engine.
	Volumes []VolumeMount
	// Tmpfs are kept in memory, and count as it.
	Tmpfs []MemoryMount
	// Start is a program with its arguments that runs beside the session's commands: nil for none, empty for the image's
	// own.
	Start []string
	// Credentials are given to requests to their hosts. They count for Network allowlist only, as does EgressLimit, which
	// bounds what a container's connections carry together, in bytes. 10 GiB
	Credentials []Credential
	EgressLimit int64
	// Workspace is how the container sees the session's workspace: "" writable, "ro", or "none", a folder of its own instead.
	Workspace string
	// Bridges are commands that run in a second container.
	Bridges []Bridge
	// Helpers lets programs of code runs call helper functions.
	Helpers bool `json:",omitempty"`
	// Compose is a project that is started for each session, and Service the one among its services where commands run: the
	// container is made of that one's image then, and finds in it what the file says.
	Compose *compose.Project
	Service string
	// DiskBytes limits what the workspace holds; 0 is no limit. The supervisor looks at it while commands run. An excess ends them,
	// and nothing more is written until something is deleted: so it is overrun once, by what is written before that look.
	DiskBytes int64
	// DiskEntries limits its files and folders where DiskBytes is set. 200000
	DiskEntries int64
}

// WithDefaults fills in what is unset.
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
	if main, ok := s.Main(); ok { // which may ask for less than the sandbox has
		s.Image = main.Image
		s.MemoryBytes, s.CPUs, s.PidsLimit = s.Limits(main)
	}
	return s
}

// GVisor is the runtime that has a kernel of its own between the workload and the machine's.
const GVisor = "runsc"

// minMemory is what the supervisor and a shell need to live.
const minMemory = 16 << 20

// Check refuses what no driver could honour, as far as can be seen without one.
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
		return fmt.Errorf("sandbox: disk_limit of %d bytes and %d entries is none; 0 bytes is no limit", s.DiskBytes, s.DiskEntries)
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

// Allowlist is the network of containers that have none, but a proxy.
const Allowlist = "allowlist"

// DriverNetwork is the network that a driver gives the container.
func (s Spec) DriverNetwork() string {
	if s.Network == Allowlist {
		return "none"
	}
	return s.Network
}

// Digest identifies what sandboxes of a specification are made of, for approvals of what is done in one.
func (s Spec) Digest() string { return s.WithDefaults().Hash("") }

// Hash identifies containers that can stand in for each other.
func (s Spec) Hash(supervisor string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("sandbox: a specification is plain data: " + err.Error())
	}
	sum := sha256.Sum256(append(text, supervisor...))
	return hex.EncodeToString(sum[:8])
}

// Recipe says how the specification's image comes about.
func (s Spec) Recipe() image.Recipe {
	return image.Recipe{
		Image: s.Image, Packages: s.Packages, Binaries: s.Binaries, Dockerfile: s.Dockerfile, Context: s.BuildContext, Network: s.BuildNetwork,
	}
}

// CodeSpec is what code runs are made of: the image of base, no network, little of everything.
func CodeSpec(base Spec) Spec {
	return Spec{
		Image: base.Image, Packages: base.Packages, Binaries: base.Binaries,
		Dockerfile: base.Dockerfile, BuildContext: base.BuildContext, BuildNetwork: base.BuildNetwork,
		Runtime: base.Runtime, WorkspaceDir: base.WorkspaceDir,
		Network: "none", MemoryBytes: 512 << 20, CPUs: 1, PidsLimit: 100, Timeout: 30 * time.Second,
	}.WithDefaults()
}
