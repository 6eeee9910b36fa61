// Package channel is the kind of plugin that connects Flynn to a chat platform: its part of plugin.toml and Describe, and the client of
// flynn.channel.v1.
//
// Start with Client: NewClient returns the client of a ready process, Receive receives its events (receive.go), Send sends replies. Everything
// that a process sends is checked and bounded here, once (event.go). The package stores no messages and repeats none, which host/channel does.
package channel

import (
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Name is the kind's name in plugin.toml.
const Name kind.Name = "channel"

// Kind is the kind for host/plugin.
type Kind struct{}

var _ kind.Kind = Kind{}

// Name implements kind.Kind.
func (Kind) Name() kind.Name { return Name }

// Section implements kind.Kind.
func (Kind) Section() string { return "channels" }

// Wire implements kind.Kind.
func (Kind) Wire() pluginv1.Kind { return pluginv1.Kind_KIND_CHANNEL }

// Relays implements kind.Kind: a channel relays messages between its goroutines, which one thread does without waking another each time.
func (Kind) Relays() bool { return true }

// Options implements kind.Kind.
func (Kind) Options() kind.Options { return &Options{} }
