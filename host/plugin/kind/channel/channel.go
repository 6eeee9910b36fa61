// Package channel is the kind of plugin that connects Flynn to a chat platform: what plugin.toml and Describe say of it, and the client of
// flynn.channel.v1.
//
// Start with Client: NewClient makes one of a ready process, Receive takes its events (receive.go), Send sends replies. What a process sends is
// checked and bounded here, once (event.go). The package keeps no messages and retries none: that is the business of host/channel.
package channel

import (
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Name is the kind's name in plugin.toml.
const Name kind.Name = "channel"

// Kind is what host/plugin knows of channels.
type Kind struct{}

var _ kind.Kind = Kind{}

// Name implements kind.Kind.
func (Kind) Name() kind.Name { return Name }

// Section implements kind.Kind.
func (Kind) Section() string { return "channels" }

// Wire implements kind.Kind.
func (Kind) Wire() pluginv1.Kind { return pluginv1.Kind_KIND_CHANNEL }

// Relays implements kind.Kind: a channel passes on what others say. Its goroutines hand a message to each other, and one thread does that
// without waking another for each.
func (Kind) Relays() bool { return true }

// Options implements kind.Kind.
func (Kind) Options() kind.Options { return &Options{} }
