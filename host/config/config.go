// Package config turns flynn.toml into a Config: strict keys, every error of a
// file at once with its line, defaults filled in, and generations for reload.
//
// Start with Load and Config; Holder keeps the configuration of a running process and
// swaps it. The package decides nothing about messages or tools.
//
// The struct tags of Config are the one schema. The accepted keys, the defaults, the checks of single values, Show
// and the reference file in examples follow from them:
//
//	toml     the key
//	default  the value of a missing key, as it would be written (strings without quotes)
//	range    "LOW..HIGH", both included, either may be left out, in the notation of the field
//	oneof    the values allowed for a string or for each string of a list; the default is always allowed
//	keys     the keys allowed in a map
//	is       path: made absolute, counted from the file's folder, "~/" is the home folder; for a map, each value;
//	         secret: a path of a secret file, which no sandbox and no image may hold; any path key ending in _file is one
//	ref      agent or tier: names one that the file configures; for a list or map, each value does
//	inherit  keys missing in a map's entries are taken from the section of that name
package config

import (
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/compose"
)

// Config is a whole flynn.toml, validated, with defaults filled in. It is immutable once loaded.
type Config struct {
	// SystemPrompt is used by agents that have none of their own.
	SystemPrompt string `toml:"system_prompt"`

	Sandbox   Sandbox                 `toml:"sandbox"`
	Sandboxes map[string]Sandbox      `toml:"sandboxes" inherit:"sandbox"` // named variations; unset keys inherit from Sandbox
	Agents    map[string]Agent        `toml:"agent_configs"`
	CLI       CLIHost                 `toml:"cli"`
	Routing   Routing                 `toml:"routing"`
	Models    map[string]Model        `toml:"models" keys:"fast default complex local"` // by tier; without any, default is the demo provider
	Channels  map[string]Channel      `toml:"channels"`
	Tools     map[string]ToolProvider `toml:"tools"`
	Drivers   map[string]Driver       `toml:"drivers"`
	Plugins   Plugins                 `toml:"plugins"`
	Policies  []Policy                `toml:"policies"`
	Trust     Trust                   `toml:"policy_trust"`
	// PluginTrust says whose plugins may be installed.
	PluginTrust Trust   `toml:"plugin_trust"`
	Gateway     Gateway `toml:"gateway"`
	// Clients are the API clients of the frontends openai and mcp.
	Clients    map[string]Client `toml:"clients"`
	Store      Store             `toml:"store"`
	Cluster    Cluster           `toml:"cluster,omitempty"`
	Backup     Backup            `toml:"backup"`
	Retention  Retention         `toml:"retention"`
	Media      Media             `toml:"media"`
	Limits     Limits            `toml:"limits"`
	Budgets    Budgets           `toml:"budgets"`
	Delegation Delegation        `toml:"delegation"`
	Schedules  []Schedule        `toml:"schedules"`
	Search     []Search          `toml:"search"`
	Tasks      Tasks             `toml:"tasks"`
	Compaction Compaction        `toml:"compaction"`
	Memory     Memory            `toml:"memory"`
	Access     Access            `toml:"access"`
	Sessions   Sessions          `toml:"sessions"`
	Approvals  Approvals         `toml:"approvals"`
	Elevated   Elevated          `toml:"elevated"`
	Telemetry  Telemetry         `toml:"telemetry"`

	// Path and Digest identify the file; Generation counts loads of this process from 1.
	Path       string `toml:"-"`
	Digest     string `toml:"-"`
	Generation uint64 `toml:"-"`
	// Renamed warns of keys that have the names of the last release.
	Renamed []Error `toml:"-"`
	// Waiting are the keys that have another value in the file, which is in force after a restart.
	Waiting []Waiting `toml:"-"`
	// Revision is the last that this host has taken of those that the hosts that share a store agree on, and Hosts are the ones with which it
	// came in force; they are empty if it concerns this host alone.
	Revision int64    `toml:"-"`
	Hosts    []string `toml:"-"`
	shared   string   // the digest of what concerns all hosts of the file, where something of it waits for a restart
	lines    *positions
}

// Sandbox describes the containers that tools run in.
type Sandbox struct {
	Enabled bool   `toml:"enabled"`
	Image   string `toml:"image" default:"node:22-slim"`
	// WorkspaceDir is the workspace's absolute path inside the container.
	WorkspaceDir string `toml:"workspace_dir" default:"/workspace"`
	// Network is the network of the container; allowlist goes through the host's proxy.
	Network string `toml:"network" default:"none" oneof:"none bridge host allowlist"`
	// Allowlist names the hosts that are reachable when Network is allowlist, in the form of netaddr.ParseRule.
	Allowlist []string `toml:"allowlist"`
	// MemoryLimit bounds memory; swap is off.
	MemoryLimit Size `toml:"memory_limit" default:"512m" range:"16m..1024g"`
	// DiskLimit bounds the workspace; 0 is no limit.
	DiskLimit Size `toml:"disk_limit" default:"2g" range:"0b..1024g"`
	// CPULimit is a number of cores as a decimal string.
	CPULimit CPUs `toml:"cpu_limit" default:"1.0" range:"0.05..512"`
	// Limits decides whether a sandbox is made where its limits cannot be held, as on a machine without control groups.
	Limits string `toml:"limits" default:"required" oneof:"required best-effort"`
	// Requires are features of the engine without which no sandbox is made, and Prefers those without which one is made all the same.
	Requires []string `toml:"requires" oneof:"seccomp user-namespaces snapshots"`
	Prefers  []string `toml:"prefers" oneof:"seccomp user-namespaces snapshots"`
	// TimeoutSeconds ends a command.
	TimeoutSeconds int `toml:"timeout_seconds" default:"300" range:"10..3600"`
	PidsLimit      int `toml:"pids_limit" default:"256" range:"8..32768"`
	// Runtime is the engine's runtime; empty means its own default.
	Runtime string `toml:"runtime" oneof:"runsc runc"`
	// Engine is the address of a container engine, auto, native, or driver:NAME for the plugin of [drivers.NAME]; see package engine. Empty
	// means auto.
	Engine string `toml:"engine"`
	// EngineCA, EngineCert and EngineKey are PEM files for an engine over TLS: its authority, and our certificate and key.
	EngineCA   string `toml:"engine_ca" is:"path"`
	EngineCert string `toml:"engine_cert" is:"path"`
	EngineKey  string `toml:"engine_key" is:"secret"`
	// OnUnavailable is deny or host: where a sandboxed tool call runs while the engine is missing.
	OnUnavailable string `toml:"on_unavailable" default:"deny" oneof:"deny host"`
	// LocalFrontends puts the tools of the web page and the terminal into the sandbox as well.
	LocalFrontends bool `toml:"local_frontends" was:"local_doors"`
	// WarmPool is the number of containers kept ready. Named sandboxes do not inherit it.
	WarmPool int `toml:"warm_pool" range:"0..64"`
	// WarmPoolCPU is the percentage of the machine's CPU time for making them; [sandbox] sets it for all.
	WarmPoolCPU int `toml:"warm_pool_cpu" default:"25" range:"1..100"`
	// PauseAfter pauses a container after that long without use, 0 is never; IdleAfter ends it.
	PauseAfter Duration `toml:"pause_after" default:"5m" range:"0s..720h"`
	IdleAfter  Duration `toml:"idle_after" default:"30m" range:"1s..720h"`
	// MaxAge replaces a container at its first idle moment.
	MaxAge Duration `toml:"max_age" default:"24h" range:"1s..8760h"`
	// Lease is how long containers with background processes outlast the host.
	Lease Duration `toml:"lease" default:"10m" range:"0s..168h"`
	// Packages and Binaries are installed on top of Image, once.
	Packages []string `toml:"packages"`
	Binaries []Binary `toml:"binaries"`
	// Dockerfile replaces Image; its context is BuildContext or its own folder.
	Dockerfile   string `toml:"dockerfile" is:"path"`
	BuildContext string `toml:"build_context" is:"path"`
	// BuildNetwork is the network of the build.
	BuildNetwork string `toml:"build_network" default:"bridge" oneof:"none bridge host"`
	// StartCommand is a program that starts beside the session's commands: nil is none, empty is the image's own command.
	StartCommand []string `toml:"start_command"`
	// Compose is a compose file whose services are started for each session.
	Compose string `toml:"compose" is:"path"`
	// Service is the one of them in which commands run.
	Service string `toml:"service"`
	// Project is the content of Compose.
	Project *compose.Project `toml:"-"`
	// MountRoots are the folders of the host that may contain mounts; only [sandbox] sets them.
	MountRoots []string `toml:"mount_roots" is:"path"`
	Mounts     []Mount  `toml:"mounts"`
	Volumes    []Volume `toml:"volumes"`
	Tmpfs      []Tmpfs  `toml:"tmpfs"`
	// EgressLimit bounds the bytes of all connections of a container through the proxy.
	EgressLimit Size         `toml:"egress_limit" default:"10g" range:"1m.."`
	Credentials []Credential `toml:"credentials"`
	Bridges     []Bridge     `toml:"bridges"`
}

// BestEffort is the value of Sandbox.Limits with which a limit that cannot be held is left out.
const BestEffort = "best-effort"

// Binary is a program that is installed in /usr/local/bin; either URL or File is set.
type Binary struct {
	Name   string `toml:"name"`
	URL    string `toml:"url"`
	File   string `toml:"file" is:"path"`
	SHA256 string `toml:"sha256"`
}

// Mount is a folder or file of the host that the container sees.
type Mount struct {
	Source   string `toml:"source" is:"path"`
	Target   string `toml:"target"`
	ReadOnly bool   `toml:"read_only" default:"true"`
}

// Volume is kept by the engine and outlives containers.
type Volume struct {
	Name     string `toml:"name"`
	Target   string `toml:"target"`
	Scope    string `toml:"scope" default:"session" oneof:"session shared"`
	ReadOnly bool   `toml:"read_only"`
}

// Tmpfs is a folder in memory, which counts as the container's.
type Tmpfs struct {
	Target string `toml:"target"`
	Size   Size   `toml:"size" default:"64m" range:"64k..64g"`
}

// Agent is one named agent.
type Agent struct {
	SystemPrompt  string        `toml:"system_prompt"`
	ModelTier     string        `toml:"model_tier" default:"default" oneof:"fast default complex local"`
	ToolProfile   string        `toml:"tool_profile" default:"minimal" oneof:"minimal messaging coding full"`
	ToolOverrides ToolOverrides `toml:"tool_overrides"`
	// Sandbox is true, false, or the name of a [sandboxes.NAME]. Default: enabled of [sandbox]
	Sandbox SandboxRef `toml:"sandbox"`
	Kind    string     `toml:"kind" default:"chat" oneof:"chat code cli"`
	// Code describes the programs of kind code.
	Code Code `toml:"code"`
	// Approve says which tool calls on the host need an approval at local frontends.
	Approve string `toml:"approve" default:"shell" oneof:"shell none"`
	// Delegates are the agents that it may delegate to; without any it has no tool for that.
	Delegates []string `toml:"delegates" ref:"agent"`
	// Queue overrides the queue of [sessions].
	Queue string `toml:"queue" oneof:"collect followup interrupt"`
	// SelectableBy is the least role that may choose it with /agent, if it is in selectable of [routing].
	SelectableBy string `toml:"selectable_by" default:"member" oneof:"owner member guest"`
	// ModelTiers are those that people may choose for it with /model, besides its own.
	ModelTiers []string `toml:"model_tiers" ref:"tier"`
	// TokensPerDay and USDPerDay are its daily budget. Default: that of [budgets] for agents
	TokensPerDay int     `toml:"tokens_per_day" range:"0.."`
	USDPerDay    float64 `toml:"usd_per_day" range:"0..1_000_000"`
	// Elevated lets the agent's machine tools leave the sandbox while elevated mode holds; see [elevated].
	Elevated bool `toml:"elevated"`
	// CLI describes the agent CLI of kind cli.
	CLI CLI `toml:"cli"`
}

// ToolOverrides narrow or extend a profile; deny wins.
type ToolOverrides struct {
	Allow []string `toml:"allow"`
	Deny  []string `toml:"deny"`
}

// SandboxRef is the value of an agent's sandbox key.
type SandboxRef struct {
	Enabled bool
	Name    string // "" means [sandbox] itself
}

// Routing is the static table.
type Routing struct {
	DefaultAgent string `toml:"default_agent" ref:"agent"`
	// Channels maps a channel instance, Senders an id "instance:platform-id" or a glob, to an agent.
	Channels map[string]string `toml:"channels" ref:"agent"`
	Senders  map[string]string `toml:"senders" ref:"agent"`
	// Selectable are the agents that people may choose for a conversation with /agent.
	Selectable []string `toml:"selectable" ref:"agent"`
}

// Model is one tier.
type Model struct {
	Provider   string `toml:"provider" oneof:"anthropic openai demo"` // required
	Model      string `toml:"model"`
	BaseURL    string `toml:"base_url"`
	APIKey     Secret `toml:"-"` // from APIKeyEnv or APIKeyFile
	APIKeyEnv  string `toml:"api_key_env"`
	APIKeyFile string `toml:"api_key_file" is:"path"` // mode 0600 or stricter
	// Fallbacks are tiers tried in order when this one fails.
	Fallbacks       []string `toml:"fallbacks" ref:"tier"`
	ContextWindow   int      `toml:"context_window" range:"0.."` // tokens; 0 means unknown
	MaxOutputTokens int      `toml:"max_output_tokens" default:"4096" range:"1.."`
	TimeoutSeconds  int      `toml:"timeout_seconds" default:"300" range:"1..3600"` // of one call
	// Images is true for a model that understands images.
	Images bool `toml:"images"`
	// Reasoning is how much the model thinks before it answers.
	Reasoning Reasoning `toml:"reasoning" default:"off"`
	Prices    Prices    `toml:"prices"`
}

// Title is the provider and the name of the model, if it has one.
func (m Model) Title() string { return strings.TrimSuffix(m.Provider+"/"+m.Model, "/") }

// KeySource says where the key of a model comes from; "" if it has none.
func (m Model) KeySource() string {
	switch {
	case m.APIKeyEnv != "" && m.APIKey == "":
		return "$" + m.APIKeyEnv + " (not set here)"
	case m.APIKeyEnv != "":
		return "$" + m.APIKeyEnv
	case m.APIKeyFile != "" && m.APIKey == "":
		return m.APIKeyFile + " (missing)"
	}
	return m.APIKeyFile
}

// Prices are US dollars for a million tokens.
type Prices struct {
	Input      float64 `toml:"input" range:"0.."`
	Output     float64 `toml:"output" range:"0.."`
	CacheRead  float64 `toml:"cache_read" range:"0.."`
	CacheWrite float64 `toml:"cache_write" range:"0.."`
}

// Channel is one channel instance. Keys other than those below belong to the plugin and are
// passed to it as Settings; keys ending in _env or _file are resolved to secrets under their
// stem ("token_env" becomes the secret "token"). A secret is empty if the channel is disabled and
// the source is missing.
type Channel struct {
	Plugin  string `toml:"plugin"` // required
	Enabled bool   `toml:"enabled" default:"true"`
	// Critical channels have to be ready before the host serves.
	Critical bool `toml:"critical" default:"false"`
	// Queue overrides the queue of [sessions].
	Queue string `toml:"queue" oneof:"collect followup interrupt"`
	// Stream shows answers while they are made, if the channel can edit its messages.
	Stream bool `toml:"stream" default:"true"`
	// Access and AccessGroups override mode and groups of [access] for this channel.
	Access       string `toml:"access" oneof:"allowlist open pair"`
	AccessGroups string `toml:"access_groups" oneof:"addressed all"`
	// TrustSenders lets rules give rights to senders whose ids the channel does not prove.
	TrustSenders bool `toml:"trust_senders" default:"false"`
	Settings     map[string]any
	Secrets      map[string]Secret
	refs         map[string]string // the _env and _file keys as written, files made absolute
}

// ToolProvider is one instance of a plugin with tools, which are called NAME.TOOL. The keys below are the host's, which does not believe
// the tool's own description. All other keys belong to the plugin, as with Channel.
type ToolProvider struct {
	Plugin  string `toml:"plugin"` // required
	Enabled bool   `toml:"enabled" default:"true"`
	// Effect is what its tools can do.
	Effect string `toml:"effect" default:"execute" oneof:"read write network execute destructive"`
	// Approve is effect (execute and destructive wait for a person), always or never.
	Approve string `toml:"approve" default:"effect" oneof:"effect always never"`
	// Profiles are the tool profiles that offer its tools. Default: full
	Profiles []string `toml:"profiles" oneof:"minimal messaging coding full"`
	// Allow and Deny are globs of the provider's own names; deny wins, an empty Allow is all.
	Allow []string `toml:"allow"`
	Deny  []string `toml:"deny"`
	// TimeoutSeconds ends a call.
	TimeoutSeconds int `toml:"timeout_seconds" default:"120" range:"1..3600"`
	// Sandbox runs the plugin's server, the program of the plugin's own keys command, args and env, in a sandbox: true, or the name of a
	// [sandboxes.NAME]. The plugin itself stays outside.
	Sandbox SandboxRef `toml:"sandbox"`
	// Read and Write are files and folders that the plugin and its child processes may use besides the system's, Network is what they
	// may connect to ("host:port", or "*"). Its manifest need not ask for them.
	Read    []string `toml:"read" is:"path"`
	Write   []string `toml:"write" is:"path"`
	Network []string `toml:"network"`
	// MemoryLimit ends them when they use more. Default: twice the figure of the manifest, or 1 GiB
	MemoryLimit Size `toml:"memory_limit" range:"0m..1024g"`
	// Tool overrides keys for single tools, by the provider's own name.
	Tool map[string]ToolRule `toml:"tool"`

	Settings map[string]any
	Secrets  map[string]Secret
	refs     map[string]string
}

// ToolRule overrides keys of the provider for one tool.
type ToolRule struct {
	Effect         string `toml:"effect" oneof:"read write network execute destructive"`
	Approve        string `toml:"approve" oneof:"effect always never"`
	TimeoutSeconds int    `toml:"timeout_seconds" range:"0..3600"`
	// Rename replaces the part after NAME.
	Rename string `toml:"rename"`
}

// Driver is one instance of a plugin that makes sandboxes. It runs if engine of [sandbox] is "driver:NAME". The keys below are the host's, and
// all other keys belong to the plugin, as with Channel.
type Driver struct {
	Plugin string `toml:"plugin"` // required
	// Public lets the plugin name public addresses for the supervisors of its sandboxes.
	Public bool `toml:"public"`
	// Read and Write are files and folders that the plugin and its child processes may use besides the system's, Sockets and Network are what
	// they may connect to. Its manifest need not ask for them.
	Read    []string `toml:"read" is:"path"`
	Write   []string `toml:"write" is:"path"`
	Sockets []string `toml:"sockets" is:"path"`
	Network []string `toml:"network"`
	// MemoryLimit ends them when they use more. Default: twice the figure of the manifest, or 1 GiB
	MemoryLimit Size `toml:"memory_limit" range:"0m..1024g"`

	Settings map[string]any
	Secrets  map[string]Secret
	refs     map[string]string
}

// Plugins configures how plugins are installed and run.
type Plugins struct {
	Dir string `toml:"dir" is:"path"` // <store dir>/plugins
	// DevPaths maps a plugin's name to a folder with plugin.toml that runs without being
	// installed and locked: for development and first-party plugins of a checkout.
	DevPaths map[string]string `toml:"dev_paths" is:"path"`
	// Containment restricts plugins by the means of the system: auto uses those that exist, required starts no plugin whose files
	// and connections cannot be restricted, off does nothing.
	Containment string `toml:"containment" default:"auto" oneof:"auto required off"`
}

// Trust says whose plugins or policies may be installed.
type Trust struct {
	// Keys are public keys, "ed25519:BASE64"; a signature by any other is refused.
	Keys []string `toml:"keys"`
	// RequireSignature refuses those that none of the Keys has signed.
	RequireSignature bool `toml:"require_signature"`
}

// Policy is one Wasm policy in the chain; chains run in file order.
type Policy struct {
	Name  string   `toml:"name"`                     // unique; by default that of Policy
	Path  string   `toml:"path" is:"path"`           // .wasm file
	Kinds []string `toml:"kinds" oneof:"route tool"` // required with Path; by default those of the policy
	// Policy names a policy that is installed or comes with Flynn, instead of Path; by default it is Name.
	Policy string `toml:"policy"`
	// Data is what the policy reads by its `data` import.
	Data   map[string]string `toml:"data"`
	Limits PolicyLimits      `toml:"limits"`
	// OnErrorAgent answers messages whose route policy failed; empty means that no agent does.
	OnErrorAgent string `toml:"on_error_agent" ref:"agent"`
	// DangerouslyAllowOnError lets tool calls pass when the policy fails; without it they are denied.
	DangerouslyAllowOnError bool `toml:"dangerously_allow_on_error"`
	// Agents and Channels are globs that limit the policy. For a route policy the agent is the one that [routing] names.
	Agents   []string `toml:"agents"`
	Channels []string `toml:"channels"`
	// Isolation is pure (reset before each call) or warm; pure for tool, warm for route.
	Isolation string `toml:"isolation" oneof:"pure warm"`
	// Shadow asks the policy without effect, and records what it would have changed.
	Shadow bool `toml:"shadow"`
	// ShadowOf names the policy that a shadow is compared with; empty means the whole chain.
	ShadowOf string `toml:"shadow_of"`
	// RevertAfterFailures replaces a new module by the previous one after so many failures among its first decisions, if it fails clearly
	// more often than that; 0 never does.
	RevertAfterFailures int `toml:"revert_after_failures" default:"5" range:"0..1000"`
	// MaxChange is the share of the last recorded decisions that a new module may change; 100% turns the check off.
	MaxChange Percent `toml:"max_change" default:"100%"`
	// MaxLoosened is the share of them that it may restrict less; none, if only max_change is set.
	MaxLoosened Percent `toml:"max_loosened" default:"100%"`
}

// PolicyLimits bound one decision.
type PolicyLimits struct {
	Fuel      int64    `toml:"fuel" default:"2_000_000" range:"1_000..10_000_000_000"`
	Memory    Size     `toml:"memory" default:"32m" range:"64k..1g"`
	Depth     int      `toml:"depth" default:"1000" range:"16..20_000"`
	HostCalls int      `toml:"host_calls" default:"256" range:"1..100_000"`
	Wall      Duration `toml:"wall" default:"50ms" range:"1ms..10s"`
}

// Gateway is the local HTTP server.
type Gateway struct {
	// Listen is a loopback address and port; port 0 takes any free one.
	Listen string `toml:"listen" default:"127.0.0.1:7351"`
	// TokenFile holds the token, made at first start with mode 0600; <store dir>/gateway.token
	TokenFile string `toml:"token_file" is:"path"`
	// Origins lists further allowed Origin values besides the listener's own.
	Origins []string `toml:"origins"`
	// PreviewOrigin is where previews are shown, with "*." for their names; empty is a name below localhost on the port of Listen.
	PreviewOrigin string `toml:"preview_origin"`
	// HooksListen is the loopback address for the webhooks of plugins; empty turns them off. PublicURL is how platforms reach it.
	HooksListen string `toml:"hooks_listen"`
	PublicURL   string `toml:"public_url"`
	// Ignore is as in Clients, for clients with the gateway's own token.
	Ignore []string `toml:"ignore" oneof:"tools response_format"`
}

// Store configures the durable state.
type Store struct {
	// Dir holds the database, plugin state and workspaces; $XDG_DATA_HOME/flynn, else ~/.local/share/flynn
	Dir string `toml:"dir" is:"path"`
	// URLEnv names the variable with the address of a Postgres database, which then has what the file flynn.db has otherwise.
	URLEnv string `toml:"url_env"`
	URL    Secret `toml:"-"` // from URLEnv
	Host   string `toml:"-"` // the name of this host among those that share the store, from Cluster; empty for one that has it alone
	// MaxAgeHours is the age above which a message is recorded but not answered.
	MaxAgeHours int `toml:"max_age_hours" default:"24" range:"1..8760"`
}

// Location returns the folder of the store, the variable and the address of its database, which are empty for SQLite, and the name of
// this host among those that share the database, which is empty for one that has it alone.
func (s Store) Location() (dir, variable string, url Secret, host string) {
	return s.Dir, s.URLEnv, s.URL, s.Host
}

// Cluster has the name of this host among those that share the store: in Host, or in the variable that HostEnv names. Without the table the
// store is not shared.
type Cluster struct {
	Host    string `toml:"host"`
	HostEnv string `toml:"host_env"`
	// Listen is the address for other hosts; empty means that they show the answers of this one when they are written. Advertise is what they
	// dial, if it is another.
	Listen    string `toml:"listen"`
	Advertise string `toml:"advertise"`
}

// Backup has backups made while the host runs.
type Backup struct {
	// To is the folder, outside of the store's and best on another disk. Empty means that none are made.
	To string `toml:"to" is:"path"`
	// Recipients are public keys of age; those who have the secret key of one can open the backups. A passphrase takes their place.
	Recipients     []string `toml:"recipients"`
	PassphraseEnv  string   `toml:"passphrase_env"`
	PassphraseFile string   `toml:"passphrase_file" is:"path"` // mode 0600 or stricter
	Passphrase     Secret   `toml:"-"`
	// Cron is when backups are made, in the time zone Timezone; empty means this machine's.
	Cron     string `toml:"cron" default:"30 3 * * *"`
	Timezone string `toml:"timezone"`
	// Of each of the last KeepDays days, KeepWeeks weeks and KeepMonths months that have backups, the last one is kept.
	KeepDays   int `toml:"keep_days" default:"7" range:"0..10_000"`
	KeepWeeks  int `toml:"keep_weeks" default:"4" range:"0..10_000"`
	KeepMonths int `toml:"keep_months" default:"12" range:"0..10_000"`
}

// Retention is for how many days records are kept that only people read; 0 is for ever.
type Retention struct {
	SessionsDays  int `toml:"sessions_days" range:"0..36_500"`
	ResultsDays   int `toml:"results_days" default:"30" range:"0..36_500"`
	DecisionsDays int `toml:"decisions_days" default:"180" range:"0..36_500"`
	AuditDays     int `toml:"audit_days" range:"0..36_500"`
	UsageDays     int `toml:"usage_days" default:"400" range:"0..36_500"`
}

// Media bounds the attachments in the store's folder.
type Media struct {
	MaxObject Size     `toml:"max_object" default:"64m" range:"64k..4g"`
	MaxTotal  Size     `toml:"max_total" default:"2g" range:"1m..65536g"`
	MaxAge    Duration `toml:"max_age" default:"720h" range:"1h..87600h"`
	// MaxFiles bounds the attachments of one message that agents get.
	MaxFiles int `toml:"max_files" default:"10" range:"0..32"`
	// Accept are globs of the media types that agents get; empty means the usual types. Executables are never accepted.
	Accept []string `toml:"accept"`
}

// Limits bound the resources of the host that one sender, and all together, may hold; 0 is no limit. See package quota.
type Limits struct {
	// SenderSessions bounds the sessions that one sender begins within a day.
	SenderSessions int `toml:"sender_sessions" default:"200" range:"0..1_000_000"`
	// SenderSandboxes and Sandboxes bound live containers, SenderProcesses and Processes background processes.
	SenderSandboxes int `toml:"sender_sandboxes" default:"8" range:"0..100_000"`
	Sandboxes       int `toml:"sandboxes" default:"64" range:"0..100_000"`
	SenderProcesses int `toml:"sender_processes" default:"32" range:"0..1_000_000"`
	Processes       int `toml:"processes" default:"256" range:"0..1_000_000"`
	// SessionDisk, SenderDisk and Disk bound the size of workspaces.
	SessionDisk Size `toml:"session_disk" default:"4g" range:"0b..65536g"`
	SenderDisk  Size `toml:"sender_disk" default:"16g" range:"0b..65536g"`
	Disk        Size `toml:"disk" default:"64g" range:"0b..65536g"`
	// SnapshotDisk bounds the snapshots of one session, which undo needs; 0 means that none are taken.
	SnapshotDisk Size `toml:"snapshot_disk" default:"1g" range:"0b..65536g"`
}

// Approvals configures how people are asked about tool calls.
type Approvals struct {
	// Conversations get every request over a channel, besides the conversation of the call: "instance:conversation-id".
	Conversations []string `toml:"conversations"`
	// Self lets owners approve their own requests over a channel.
	Self bool `toml:"self"`
}
