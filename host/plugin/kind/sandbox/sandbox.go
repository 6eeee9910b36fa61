// Package sandbox is the kind of plugin that drives sandboxes: its description for host/plugin, and the client of flynn.sandbox.v1.
//
// Start with Client: NewClient returns the client of a ready process. Everything that a process sends is checked and bounded here, and each
// call has a deadline of the host's own. Package host/sandbox/fleet/drivers makes a driver of the client, and believes no claim of it before a
// self-test.
package sandbox

import (
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Name is the kind's name in plugin.toml.
const Name kind.Name = "sandbox"

// Kind is the kind for host/plugin.
type Kind struct{}

var _ kind.Kind = Kind{}

// Name implements kind.Kind.
func (Kind) Name() kind.Name { return Name }

// Section implements kind.Kind.
func (Kind) Section() string { return "drivers" }

// Wire implements kind.Kind.
func (Kind) Wire() pluginv1.Kind { return pluginv1.Kind_KIND_SANDBOX }

// Relays implements kind.Kind.
func (Kind) Relays() bool { return true }

// Options implements kind.Kind: plugin.toml has no table for drivers.
func (Kind) Options() kind.Options { return nil }
