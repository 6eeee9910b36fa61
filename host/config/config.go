// Package config turns flynn.toml into a Config: strict keys, every error of a
// file at once with its line, defaults filled in, and generations for reload.
//
// Start with Load and Config. The package decides nothing about messages or
// tools; it only says what the owner wrote, and refuses what makes no sense.
package config

import (
	"time"
)

// Config is a whole flynn.toml, validated, with defaults filled in. It is immutable once loaded.
type Config struct {
	// SystemPrompt is used by agents that have none of their own.
	SystemPrompt string `toml:"system_prompt"`

	Sandbox   Sandbox            `toml:"sandbox"`
	Sandboxes map[string]Sandbox `toml:"sandboxes"` // named variations; unset keys inherit from Sandbox
	Agents    map[string]Agent   `toml:"agent_configs"`
	Routing   Routing            `toml:"routing"`
	Models    map[string]Model   `toml:"models"` // by tier: fast, default, complex, local
	Channels  map[string]Channel `toml:"channels"`
	Plugins   Plugins            `toml:"plugins"`
	Policies  []Policy           `toml:"policies"`
	Gateway   Gateway            `toml:"gateway"`
	Store     Store              `toml:"store"`
	Budgets   Budgets            `toml:"budgets"`
	Access    Access             `toml:"access"`

	// Path and Digest identify the file; Generation counts loads of this process from 1.
	Path       string `toml:"-"`
	Digest     string `toml:"-"`
	Generation uint64 `toml:"-"`
	lines      *positions
}

// Sandbox describes the containers that tools run in.
type Sandbox struct {
	Enabled bool   `toml:"enabled"` // false
	Image   string `toml:"image"`   // node:22-slim
	// WorkspaceDir is the workspace's absolute path inside the container. /workspace
	WorkspaceDir string `toml:"workspace_dir"`
	// Network is none, bridge, host or allowlist. none
	Network string `toml:"network"`
	// Allowlist names the host:port patterns reachable when Network is allowlist.
	Allowlist []string `toml:"allowlist"`
	// MemoryLimit is a size with unit k, m or g; swap is off. 512m
	MemoryLimit Size `toml:"memory_limit"`
	// CPULimit is a number of cores as a decimal string. 1.0
	CPULimit       CPUs   `toml:"cpu_limit"`
	TimeoutSeconds int    `toml:"timeout_seconds"` // 300, from 10 to 3600
	PidsLimit      int    `toml:"pids_limit"`      // 256
	Runtime        string `toml:"runtime"`         // "" or runsc
	// Engine is the address of the Docker engine; empty means DOCKER_HOST or the default socket.
	Engine string `toml:"engine"`
	// OnUnavailable is deny or host. deny
	OnUnavailable string `toml:"on_unavailable"`
	// LocalDoors puts the tools of the web page and the terminal into the sandbox as well. false
	LocalDoors bool `toml:"local_doors"`
	// WarmPool is the number of containers kept ready. 0
	WarmPool int `toml:"warm_pool"`
}

// Agent is one named agent.
type Agent struct {
	SystemPrompt  string        `toml:"system_prompt"`
	ModelTier     string        `toml:"model_tier"`   // fast, default, complex or local; default
	ToolProfile   string        `toml:"tool_profile"` // minimal, messaging, coding or full; minimal
	ToolOverrides ToolOverrides `toml:"tool_overrides"`
	// Sandbox is true, false, or the name of a [sandboxes.NAME].
	Sandbox SandboxRef `toml:"sandbox"`
	Kind    string     `toml:"kind"` // chat, code or cli; chat
	// Approve says which tool calls wait for a person at local doors when they would run on
	// the host: "shell" (default), "none".
	Approve string `toml:"approve"`
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
	DefaultAgent string            `toml:"default_agent"`
	Channels     map[string]string `toml:"channels"`
	Senders      map[string]string `toml:"senders"`
}

// Model is one tier.
type Model struct {
	Provider   string `toml:"provider"` // anthropic, openai or demo
	Model      string `toml:"model"`
	BaseURL    string `toml:"base_url"`
	APIKey     Secret `toml:"-"` // from APIKeyEnv or APIKeyFile
	APIKeyEnv  string `toml:"api_key_env"`
	APIKeyFile string `toml:"api_key_file"`
	// Fallbacks are tiers tried in order when this one fails.
	Fallbacks       []string `toml:"fallbacks"`
	ContextWindow   int      `toml:"context_window"`    // tokens; 0 means unknown
	MaxOutputTokens int      `toml:"max_output_tokens"` // 4096
	TimeoutSeconds  int      `toml:"timeout_seconds"`   // 300, of one call
	Prices          Prices   `toml:"prices"`
}

// Prices are in US dollars for a million tokens.
type Prices struct {
	Input      float64 `toml:"input"`
	Output     float64 `toml:"output"`
	CacheRead  float64 `toml:"cache_read"`
	CacheWrite float64 `toml:"cache_write"`
}

// Channel is one channel instance. Keys other than plugin and enabled belong to the plugin and
// are handed to it as Settings; keys ending in _env or _file are resolved to secrets under their
// stem ("token_env" becomes the secret "token").
type Channel struct {
	Plugin   string
	Enabled  bool // true
	Settings map[string]any
	Secrets  map[string]Secret
}

// Plugins says where plugins are installed.
type Plugins struct {
	Dir string `toml:"dir"` // <store dir>/plugins
	// DevPaths maps a plugin's name to a folder with plugin.toml that runs without being
	// installed and locked: for development and first-party plugins of a checkout.
	DevPaths map[string]string `toml:"dev_paths"`
}

// Policy is one Wasm policy in the chain; chains run in file order.
type Policy struct {
	Name  string   `toml:"name"`
	Path  string   `toml:"path"`  // .wasm file, relative to flynn.toml
	Kinds []string `toml:"kinds"` // route, tool
	// Data is handed to the policy by its `data` import.
	Data   map[string]string `toml:"data"`
	Limits PolicyLimits      `toml:"limits"`
	// OnErrorAgent takes messages whose route policy failed; empty means none does.
	OnErrorAgent string `toml:"on_error_agent"`
	// Isolation is pure (reset before each call) or warm; pure for tool, warm for route.
	Isolation string `toml:"isolation"`
}

// PolicyLimits bound one decision.
type PolicyLimits struct {
	Fuel      int64    `toml:"fuel"`       // 2_000_000
	Memory    Size     `toml:"memory"`     // 32m
	Depth     int      `toml:"depth"`      // 1000
	HostCalls int      `toml:"host_calls"` // 256
	Wall      Duration `toml:"wall"`       // 50ms
}

// Gateway is the local HTTP door.
type Gateway struct {
	Listen string `toml:"listen"` // 127.0.0.1:7351
	// TokenFile holds the token, made at first start with mode 0600; <store dir>/gateway.token
	TokenFile string `toml:"token_file"`
	// Origins lists further allowed Origin values besides the listener's own.
	Origins []string `toml:"origins"`
}

// Store is where durable state lives.
type Store struct {
	// Dir holds the database, plugin state and workspaces; ~/.local/share/flynn
	Dir string `toml:"dir"`
	// MaxAgeHours is the age past which a message is recorded and not answered. 24
	MaxAgeHours int `toml:"max_age_hours"`
}

// Budgets limit a turn.
type Budgets struct {
	StepsPerTurn       int `toml:"steps_per_turn"`       // 25 model calls
	ToolCallsPerTurn   int `toml:"tool_calls_per_turn"`  // 50
	TurnTimeoutSeconds int `toml:"turn_timeout_seconds"` // 600
	TokensPerTurn      int `toml:"tokens_per_turn"`      // 200_000
	ParallelTurns      int `toml:"parallel_turns"`       // 64
}

// Access says who may talk to Flynn over channels.
type Access struct {
	// Mode is allowlist (default) or open.
	Mode string `toml:"mode"`
	// Owners and Members are sender ids or globs, "instance:platform-id".
	Owners  []string `toml:"owners"`
	Members []string `toml:"members"`
	// RatePerMinute bounds the messages of one sender that are answered. 30
	RatePerMinute int `toml:"rate_per_minute"`
	// Groups is addressed (default: answer only when addressed) or all.
	Groups string `toml:"groups"`
}

// Secret is a value that prints as redacted, in every format.
type Secret string

const redacted = "[redacted]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from showing the value.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps encoders from showing the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the value itself. Call it only where the value leaves for its owner.
func (s Secret) Reveal() string { return string(s) }

// Size is a number of bytes, written "512m".
type Size int64

// CPUs is a number of cores, written "1.5".
type CPUs float64

// Duration is a time span, written "50ms".
type Duration time.Duration

type positions struct{}
