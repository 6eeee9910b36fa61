// Package plugin has what plugins of every kind share: their configuration, its errors, their state, and Main for a program of more than
// one kind.
//
// A plugin of one kind does not need it: start with sdk/channel or sdk/tool, which have the same names. A program that is both a channel
// and a provider of tools runs its two parts in one process:
//
//	func main() { plugin.Main(channel.Part(&chat{}), tool.Part(&tools{})) }
//
// Each part gets the whole configuration, and both must have the same name, version and schema. Run is called for the part as which the
// instance is used: the channel's below [channels], the provider's below [tools].
package plugin

import (
	"context"
	"log/slog"
	"net"

	"github.com/flynnhost/flynn/sdk/internal/process"
)

// Config is the configuration of one instance.
type Config = process.Config

// FieldError is an error in one setting.
type FieldError = process.FieldError

// FieldErrors is the error of Configure for wrong settings. The host shows them and does not try again until the configuration changes.
type FieldErrors = process.FieldErrors

// State is the state of a plugin's connection to its platform.
type State = process.State

// The states.
const (
	StateConnecting   = process.StateConnecting
	StateReady        = process.StateReady        // connected and working
	StateDegraded     = process.StateDegraded     // working with losses that the text explains
	StateAuthRequired = process.StateAuthRequired // a person has to renew a credential
	StateRateLimited  = process.StateRateLimited  // the platform asked to slow down
)

// Part is one kind's share of a plugin, made by channel.Part or tool.Part.
type Part = process.Part

// Main runs the parts as a plugin process and does not return. It ends when the host requests it, when the host is gone (standard input
// ends), or when a part fails.
func Main(parts ...Part) { process.Main(parts...) }

// Serve serves the parts on lis without a host's handshake, until ctx ends or the plugin ends. It is for tests and debuggers; the
// connection is neither encrypted nor authenticated.
func Serve(ctx context.Context, lis net.Listener, log *slog.Logger, parts ...Part) error {
	return process.Serve(ctx, lis, log, parts...)
}
