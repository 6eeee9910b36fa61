package gateway

import (
	"context"
	"time"
)

// InstalledPlugins manages the plugins on disk, which instances run. Errors are store.ErrNotFound for a plugin that is not installed, and
// store.ErrConflict for what the configuration or the plugin's state does not allow.
type InstalledPlugins interface {
	InstalledPlugins(ctx context.Context) ([]InstalledPlugin, error)
	InstalledPlugin(ctx context.Context, name string) (InstalledPlugin, error)
	// InstallPlugin installs from a folder, an archive or a URL.
	InstallPlugin(ctx context.Context, from PluginSource, by string) (InstalledPlugin, error)
	// UpgradePlugin moves a plugin to the version of a source; the host goes back if it does not run.
	UpgradePlugin(ctx context.Context, name string, from PluginSource, by string) (InstalledPlugin, error)
	RollbackPlugin(ctx context.Context, name, by string) (InstalledPlugin, error)
	// VerifyPlugin compares every file with the lock; the problem is empty if all are as they were installed.
	VerifyPlugin(ctx context.Context, name string) (problem string, err error)
	EnablePlugin(ctx context.Context, name string, enabled bool, by string) error
	// RemovePlugin deletes a plugin; one that is used only if force is true.
	RemovePlugin(ctx context.Context, name string, force bool, by string) error
}

// PluginSource is where a plugin comes from.
type PluginSource struct {
	From string `json:"from" minLength:"1" maxLength:"4096" doc:"A folder or an archive on the host's machine, or a URL"`
	// Private accepts a URL that leads to the host's machine or its network.
	Private bool `json:"allow_private,omitempty" doc:"Accept a URL that leads to the host's machine or its network"`
}

// InstalledPlugin is a plugin that is installed or comes with flynn.
type InstalledPlugin struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description,omitempty"`
	Kinds       []string `json:"kinds"`
	// Installed is false for a plugin that comes with flynn and has not been used.
	Installed bool              `json:"installed"`
	Disabled  bool              `json:"disabled"`
	Source    string            `json:"source,omitempty"`
	Signer    string            `json:"signer,omitempty" doc:"The key that signed it; empty if nobody did"`
	Next      string            `json:"next,omitempty" doc:"A version that is being tried"`
	Versions  []PluginVersion   `json:"versions" doc:"The active one first, then those to go back to"`
	Rejected  []RejectedVersion `json:"rejected"`
	Asks      PluginPermissions `json:"permissions"`
	Instances []string          `json:"instances" doc:"The tables of flynn.toml that use it"`
	Problem   string            `json:"problem,omitempty" doc:"Why its files cannot be read"`
}

// PluginVersion is one installed version.
type PluginVersion struct {
	Version   string    `json:"version"`
	Active    bool      `json:"active"`
	Installed time.Time `json:"installed,omitzero"`
	Source    string    `json:"source,omitempty"`
	Signer    string    `json:"signer,omitempty"`
	Digest    string    `json:"digest,omitempty" doc:"Of its plugin.toml"`
	Files     int       `json:"files"`
}

// RejectedVersion is a version whose trial failed.
type RejectedVersion struct {
	Version string    `json:"version"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
}

// PluginPermissions is what a plugin asks for.
type PluginPermissions struct {
	Network []string `json:"network,omitempty"`
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Host    []string `json:"host,omitempty"`
	Env     []string `json:"env,omitempty"`
	Secrets []string `json:"secrets,omitempty"`
	State   bool     `json:"state,omitempty"`
}
