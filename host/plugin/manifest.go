package plugin

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/mod/semver"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/message"
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
	Kinds       []Kind             `toml:"kinds"`
	Protocols   []int              `toml:"protocols"`
	Critical    bool               `toml:"critical"` // the host should not serve without it
	Host        HostRange          `toml:"host"`
	Exec        map[string]Command `toml:"exec"` // by platform ("linux-amd64"), or "any"
	Run         RunOptions         `toml:"run"`
	Config      ConfigOptions      `toml:"config"`
	Channel     ChannelOptions     `toml:"channel"`
	Permissions Permissions        `toml:"permissions"`
}

// HostRange says with which hosts the plugin works.
type HostRange struct {
	Min string `toml:"min"`
}

// Command is a program with its arguments. The program is a file of the plugin when it holds a slash, and is looked up
// on the host's PATH otherwise.
type Command []string

// UnmarshalTOML takes a string or a list of strings.
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

// RunOptions say how the process is run.
type RunOptions struct {
	TLS          string   `toml:"tls"` // "auto" (default) or "none"
	StartTimeout Duration `toml:"start_timeout"`
	StopTimeout  Duration `toml:"stop_timeout"`
	Memory       Size     `toml:"memory"` // handed to Go programs as GOMEMLIMIT; 0: no limit
	Reload       bool     `toml:"reload"`
}

// ConfigOptions describe the settings.
type ConfigOptions struct {
	Schema  string   `toml:"schema"`  // file with a JSON schema
	Secrets []string `toml:"secrets"` // names that an instance may or must have
}

// ChannelOptions are the capabilities of a channel, which its process has to confirm.
type ChannelOptions struct {
	MaxText         int      `toml:"max_text"` // code points
	MaxAttachment   Size     `toml:"max_attachment"`
	Edit            bool     `toml:"edit"`
	EditWindow      Duration `toml:"edit_window"`
	MinEditInterval Duration `toml:"min_edit_interval"`
	Typing          bool     `toml:"typing"`
	Delete          bool     `toml:"delete"`
	React           bool     `toml:"react"`
	Fetch           bool     `toml:"fetch"`
	Upload          bool     `toml:"upload"`
	Resolve         bool     `toml:"resolve"`
	Reconcile       bool     `toml:"reconcile"`
	Idempotent      bool     `toml:"idempotent"`
	Exclusive       bool     `toml:"exclusive"`
	Threads         bool     `toml:"threads"`
	Markdown        bool     `toml:"markdown"`
	Buttons         bool     `toml:"buttons"`
	// Senders says what the platform proves about the ids of senders: "proved", "claimed" or "none".
	Senders message.SenderProof `toml:"senders"`
	// ClaimedWhen are settings with which the ids of senders are mere claims although Senders says "proved". An operator who writes one
	// of them accepts the claims.
	ClaimedWhen map[string]any `toml:"claimed_when"`
}

// Permissions are what the plugin says it needs. State, env and host are enforced; the ports of network, read and write are where the
// system has what it takes, see Containment.
type Permissions struct {
	Network []string `toml:"network"` // "host:port"
	Host    []string `toml:"host"`    // "kv", "media", "webhook", "metric"
	Env     []string `toml:"env"`     // variables of the host to pass on
	State   bool     `toml:"state"`   // a folder that survives restarts
	// WebhookBody is how long a request to its webhooks may be, where its platform sends more than others; 0: 256 KiB.
	WebhookBody Size     `toml:"webhook_body"`
	Read        []string `toml:"read"`  // files and folders of the machine, beside the system's own
	Write       []string `toml:"write"` // the same, to read and write
}

// Duration is a time span, written "10s".
type Duration time.Duration

// UnmarshalText parses the written form.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err == nil && v < 0 {
		err = errors.New("it is negative")
	}
	*d = Duration(v)
	return err
}

// Size is a number of bytes, written "64MiB", "512KiB" or "1GiB".
type Size int64

// UnmarshalText parses the written form.
func (s *Size) UnmarshalText(text []byte) error {
	for unit, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		number, ok := strings.CutSuffix(string(text), unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > 1<<40/factor {
			return fmt.Errorf("%q is not a size", text)
		}
		*s = Size(n * factor)
		return nil
	}
	return fmt.Errorf("%q is not a size: write it as 64MiB", text)
}

var (
	// validPlugin also keeps names from being paths.
	validPlugin = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$`) })
	validName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`) })
	validEnv    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
)

const maxManifest = 64 << 10 // bytes

// ParseManifest reads a plugin.toml. Every key has to be known and every value to make sense; the error names all that do not.
func ParseManifest(text []byte) (Manifest, error) {
	if len(text) > maxManifest {
		return Manifest{}, fmt.Errorf("%s has %d bytes, at most %d", ManifestName, len(text), maxManifest)
	}
	var m Manifest
	meta, err := toml.Decode(string(text), &m)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", ManifestName, err)
	}
	var wrong []error
	for _, key := range meta.Undecoded() {
		wrong = append(wrong, fmt.Errorf("%s: unknown key %s", ManifestName, key))
	}
	wrong = append(wrong, m.problems()...)
	if err := errors.Join(wrong...); err != nil {
		return Manifest{}, err
	}
	m.setDefaults()
	return m, nil
}

func (m *Manifest) setDefaults() {
	if m.Run.TLS == "" {
		m.Run.TLS = tlsAuto
	}
	if m.Run.StartTimeout == 0 {
		m.Run.StartTimeout = Duration(10 * time.Second)
	}
	if m.Run.StopTimeout == 0 {
		m.Run.StopTimeout = Duration(10 * time.Second)
	}
}

// The values of run.tls.
const (
	tlsAuto = "auto"
	tlsNone = "none"
)

// problems names everything in m that makes no sense.
func (m *Manifest) problems() []error {
	var out []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Errorf(ManifestName+": "+format, args...))
		}
	}
	check(m.Format == 1, "manifest is %d, this host reads 1", m.Format)
	check(validPlugin().MatchString(m.Name), "name %q: must be 2 to 40 of a-z, 0-9 and - inside", m.Name)
	check(exactSemver(m.Version), "version %q: must be an exact version like 1.4.0, no v", m.Version)
	check(m.Host.Min == "" || exactSemver(m.Host.Min), "host.min %q: must be an exact version like 1.4.0, no v", m.Host.Min)
	check(len(m.Kinds) > 0, "kinds is empty: name channel, tools or both")
	for _, k := range m.Kinds {
		check(k == Channel || k == Tools, "kind %q: must be channel or tools", k)
	}
	check(slices.Contains(m.Protocols, handshake.Protocol), "protocols %v: this host speaks %d", m.Protocols, handshake.Protocol)
	check(slices.Contains([]string{"", tlsAuto, tlsNone}, m.Run.TLS), "run.tls %q: must be auto or none", m.Run.TLS)
	check(m.Run.StartTimeout <= Duration(5*time.Minute), "run.start_timeout is above 5m")
	check(m.Run.StopTimeout <= Duration(time.Minute), "run.stop_timeout is above 1m")
	check(m.Config.Schema == "" || folder.Inside(m.Config.Schema), "config.schema %q is not a file of the plugin", m.Config.Schema)
	check(m.Channel.MaxText >= 0 && m.Channel.MaxText <= 1<<30, "channel.max_text %d is out of range", m.Channel.MaxText)
	check(slices.Contains([]message.SenderProof{message.SendersUnsaid, message.SendersProved, message.SendersClaimed, message.SendersUnproved},
		m.Channel.Senders), "channel.senders %q: must be proved, claimed or none", m.Channel.Senders)
	check(len(m.Channel.ClaimedWhen) == 0 || m.Channel.Senders == message.SendersProved, "channel.claimed_when needs senders = \"proved\"")
	for key, value := range m.Channel.ClaimedWhen {
		_, text := value.(string)
		_, truth := value.(bool)
		check(text || truth, "channel.claimed_when.%s: must be a string, true or false", key)
	}
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

// capabilities is the [channel] table in the form in which a process declares it.
func (m *Manifest) capabilities() message.Capabilities {
	c := m.Channel
	out := message.Capabilities{
		MaxTextRunes: c.MaxText, MaxAttachmentBytes: int64(c.MaxAttachment),
		Edit: c.Edit, EditWindow: time.Duration(c.EditWindow), MinEditInterval: time.Duration(c.MinEditInterval),
		Typing: c.Typing, Delete: c.Delete, React: c.React, Fetch: c.Fetch, Upload: c.Upload, Resolve: c.Resolve,
		Reconcile: c.Reconcile, Idempotent: c.Idempotent, Exclusive: c.Exclusive, Threads: c.Threads, Markdown: c.Markdown,
		Buttons: c.Buttons, Senders: c.Senders,
	}
	if out.MinEditInterval == 0 {
		out.MinEditInterval = defaultEditInterval
	}
	return out
}
