package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/mod/semver"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// ManifestName is the file at the root of every plugin.
const ManifestName = "plugin.toml"

// Manifest is a plugin.toml: data about a plugin that can be read without running it.
type Manifest struct {
	Format      int                `toml:"manifest"` // 1
	Name        string             `toml:"name"`     // [a-z0-9-], 2 to 40 characters
	Version     string             `toml:"version"`  // exact semver, no "v"
	Description string             `toml:"description"`
	Kinds       []kind.Name        `toml:"kinds"`
	Protocols   []int              `toml:"protocols"`
	Critical    bool               `toml:"critical"` // the host does not serve without it
	Host        HostRange          `toml:"host"`
	Exec        map[string]Command `toml:"exec"` // by platform ("linux-amd64"), or "any"
	Run         RunOptions         `toml:"run"`
	Config      ConfigOptions      `toml:"config"`
	Permissions Permissions        `toml:"permissions"`
	// Options are the tables of the kinds, or their defaults if the file has none.
	Options map[kind.Name]kind.Options `toml:"-"`
}

// HostRange says which hosts the plugin works with.
type HostRange struct {
	Min string `toml:"min"`
}

// Command is a program with its arguments. The program is a file of the plugin if it contains a slash, and is looked up on the host's
// PATH otherwise.
type Command []string

// UnmarshalTOML accepts a string or a list of strings.
func (c *Command) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		*c = Command{v}
		return nil
	case []any:
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return fmt.Errorf("must be a list of strings, got a %T in it", item)
			}
			*c = append(*c, s)
		}
		return nil
	}
	return fmt.Errorf("must be a string or a list of strings, got %T", v)
}

// RunOptions say how the process runs.
type RunOptions struct {
	TLS          string        `toml:"tls"` // "auto" (default) or "none"
	StartTimeout kind.Duration `toml:"start_timeout"`
	StopTimeout  kind.Duration `toml:"stop_timeout"`
	Memory       kind.Size     `toml:"memory"` // GOMEMLIMIT of Go programs; 0: no limit
	Reload       bool          `toml:"reload"`
}

// ConfigOptions describe the settings.
type ConfigOptions struct {
	Schema  string   `toml:"schema"`  // file with a JSON schema
	Secrets []string `toml:"secrets"` // names that an instance may or must have
}

// Permissions are the permissions that the plugin asks for. State, env and host are always enforced; the ports of network, read and write
// only if the system can, see Containment.
type Permissions struct {
	Network []string `toml:"network"` // "host:port"
	Host    []string `toml:"host"`    // "kv", "media", "webhook", "metric"
	Env     []string `toml:"env"`     // variables of the host to pass on
	State   bool     `toml:"state"`   // a folder that survives restarts
	// WebhookBody bounds the requests to its webhooks, for a platform that sends large ones; 0: 256 KiB.
	WebhookBody kind.Size `toml:"webhook_body"`
	Read        []string  `toml:"read"`  // files and folders of the machine, in addition to system files
	Write       []string  `toml:"write"` // the same, to read and write
}

var (
	// validPlugin also keeps names from being paths.
	validPlugin = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$`) })
	validName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`) })
	validEnv    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
)

const maxManifest = 64 << 10 // bytes

// ParseManifest reads a plugin.toml. Every key has to be known and every value valid; the error names all that are not.
func ParseManifest(text []byte) (Manifest, error) { return AllKinds().parse(text) }

func (ks Kinds) parse(text []byte) (Manifest, error) {
	if len(text) > maxManifest {
		return Manifest{}, fmt.Errorf("%s has %d bytes, at most %d", ManifestName, len(text), maxManifest)
	}
	var m Manifest
	meta, err := toml.Decode(string(text), &m)
	var known func(toml.Key) bool
	if err == nil {
		m.Options, known, err = ks.options(string(text))
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", ManifestName, err)
	}
	var wrong []error
	for _, key := range meta.Undecoded() {
		if !known(key) {
			wrong = append(wrong, fmt.Errorf("%s: unknown key %s", ManifestName, key))
		}
	}
	wrong = append(wrong, m.problems(ks)...)
	if err := errors.Join(wrong...); err != nil {
		return Manifest{}, err
	}
	m.setDefaults()
	return m, nil
}

func (m *Manifest) setDefaults() {
	m.Run.TLS = cmp.Or(m.Run.TLS, tlsAuto)
	m.Run.StartTimeout = cmp.Or(m.Run.StartTimeout, kind.Duration(10*time.Second))
	m.Run.StopTimeout = cmp.Or(m.Run.StopTimeout, kind.Duration(10*time.Second))
}

// The values of run.tls.
const (
	tlsAuto = "auto"
	tlsNone = "none"
)

// problems names every error in m.
func (m *Manifest) problems(ks Kinds) []error {
	var out []error
	report := func(format string, args ...any) { out = append(out, fmt.Errorf(ManifestName+": "+format, args...)) }
	check := func(ok bool, format string, args ...any) {
		if !ok {
			report(format, args...)
		}
	}
	check(m.Format == 1, "manifest is %d, this host reads 1", m.Format)
	check(validPlugin().MatchString(m.Name), "name %q: must be 2 to 40 of a-z, 0-9 and - inside", m.Name)
	check(exactSemver(m.Version), "version %q: must be an exact version like 1.4.0, no v", m.Version)
	check(m.Host.Min == "" || exactSemver(m.Host.Min), "host.min %q: must be an exact version like 1.4.0, no v", m.Host.Min)
	ks.problems(m, report)
	check(slices.Contains(m.Protocols, handshake.Protocol), "protocols %v: this host speaks %d", m.Protocols, handshake.Protocol)
	check(slices.Contains([]string{"", tlsAuto, tlsNone}, m.Run.TLS), "run.tls %q: must be auto or none", m.Run.TLS)
	check(m.Run.StartTimeout <= kind.Duration(5*time.Minute), "run.start_timeout is above 5m")
	check(m.Run.StopTimeout <= kind.Duration(time.Minute), "run.stop_timeout is above 1m")
	check(m.Config.Schema == "" || folder.Inside(m.Config.Schema), "config.schema %q is not a file of the plugin", m.Config.Schema)
	check(knownServices(m.Permissions.Host), "permissions.host %q: must be some of %q, each once", m.Permissions.Host, service.Names())
	check(m.Permissions.WebhookBody <= service.MaxHookBody, "permissions.webhook_body: at most %d MiB", service.MaxHookBody>>20)
	for _, name := range m.Permissions.Env {
		check(validEnv().MatchString(name) && !reservedEnv(name), "permissions.env %q cannot be passed on", name)
	}
	for _, name := range slices.Concat(m.Permissions.Read, m.Permissions.Write) {
		check(path.IsAbs(name) && path.Clean(name) == name, "permissions: %q is not an absolute path", name)
	}
	check(len(m.Exec) > 0, "exec is empty: name a command for a platform like %s, or any", Platform())
	for platform, c := range m.Exec {
		check(len(c) > 0 && c[0] != "", "exec.%s is empty", platform)
		check(len(c) == 0 || !strings.Contains(c[0], "/") || folder.Inside(c[0]), "exec.%s %q is not a file of the plugin", platform, c)
		check(platform == "any" || strings.Count(platform, "-") == 1, "exec.%s: must be a platform like %s, or any", platform, Platform())
	}
	return out
}

func exactSemver(v string) bool {
	return semver.IsValid("v"+v) && semver.Canonical("v"+v) == strings.SplitN("v"+v, "+", 2)[0]
}

// Platform is this machine's key in exec.
func Platform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// command is the command for this machine.
func (m *Manifest) command() (Command, error) {
	if c, ok := m.Exec[Platform()]; ok {
		return c, nil
	}
	if c, ok := m.Exec["any"]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("plugin %s %s has no program for %s", m.Name, m.Version, Platform())
}
