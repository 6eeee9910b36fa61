// Package tools is the kind of plugin that provides tools: its description for host/plugin, and the client of flynn.tool.v1.
//
// Start with Client: NewClient returns the client of a ready process, List returns its tools, and Call runs one. Everything that a process
// sends is checked and bounded here. Package host/tool/provider decides which tools agents are offered, and under which rules.
package tools

import (
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Name is the kind's name in plugin.toml.
const Name kind.Name = "tools"

// Kind is the kind for host/plugin.
type Kind struct{}

var _ kind.Kind = Kind{}

// Name implements kind.Kind.
func (Kind) Name() kind.Name { return Name }

// Section implements kind.Kind.
func (Kind) Section() string { return "tools" }

// Wire implements kind.Kind.
func (Kind) Wire() pluginv1.Kind { return pluginv1.Kind_KIND_TOOLS }

// Relays implements kind.Kind: a tool may compute.
func (Kind) Relays() bool { return false }

// Options implements kind.Kind: plugin.toml has no table for tools.
func (Kind) Options() kind.Options { return nil }
