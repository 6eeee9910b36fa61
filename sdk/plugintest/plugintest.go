// Package plugintest is a host for tests of plugins: it drives a Channel or a provider of tools through the real SDK over an in-memory
// connection, without a process.
//
// Begin with Start. Event, Ack and Reconnect are the host's side of the event stream; Send and similar methods are the other direction.
// Every wait is bounded and fails the test at its end. The services of the host for the plugin (Config.Permissions) are kept in memory,
// where Services shows them; Webhook sends HTTP requests. For tools begin with StartTools. Conform makes the checks of `flynn plugin
// conform`, and CheckSchema compares the settings with their schema. With Config.Leases the Host is one of several, and can be suspended.
//
//	h := plugintest.Start(t, &irc{}, plugintest.Config{Settings: map[string]any{"server": addr}})
//	e := h.Event()
//	h.Ack()
package plugintest

import (
	"context"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Config configures how the plugin is started. The zero value works.
type Config struct {
	Instance string // "test" by default
	Settings map[string]any
	Secrets  map[string]string
	StateDir string        // a folder of the test by default
	Window   int           // 32 by default
	Timeout  time.Duration // of every single wait; 30 s by default
	// Permissions are those of permissions.host in plugin.toml: "kv", "media", "webhook", "metric".
	Permissions []string
	Services    *Services // those of an earlier plugin of the test; new ones by default
	// Leases makes the host one of several, which grants leases; by default the instance is its alone.
	Leases *Leases

	onServe func(url string) // called on a separate goroutine when the plugin serves a webhook
}

// Leases are the leases that a Host grants.
type Leases = wire.Leases

// NewLeases returns a host's leases of a channel: the epoch that the host has, and how long each lasts.
func NewLeases(epoch int64, duration time.Duration) *Leases { return wire.NewLeases(epoch, duration) }

// Host is a host with one running channel.
type Host struct {
	process
	channel channelv1.ChannelClient

	stream *wire.Stream
	seen   uint64 // highest seq that Event returned
}

// Start starts p, configures it and opens the event stream. The plugin ends with the test.
func Start(t testing.TB, p channel.Channel, c Config) *Host {
	t.Helper()
	h, err := TryStart(t, p, c)
	if err != nil {
		t.Fatalf("configure the plugin: %v", err)
	}
	return h
}

// TryStart is Start for settings that may be refused: the error is a channel.FieldErrors if they are wrong.
func TryStart(t testing.TB, p channel.Channel, c Config) (*Host, error) {
	t.Helper()
	running, err := serve(t, withDefaults(t, c), channel.Part(p))
	if err != nil {
		return nil, err
	}
	h := &Host{process: running}
	h.channel = channelv1.NewChannelClient(h.conn)
	if err := h.configure(); err != nil {
		return nil, err
	}
	h.open()
	t.Cleanup(h.closeStream)
	return h, nil
}

// Abilities returns the optional methods that the plugin declares: "edit", "typing", "delete", "react", "fetch", "upload", "resolve",
// "reconcile", in this order.
func (h *Host) Abilities() []string {
	h.t.Helper()
	d, err := h.plugin.Describe(context.Background(), &pluginv1.DescribeRequest{})
	if err != nil {
		h.t.Fatalf("describe: %v", err)
	}
	c := d.GetChannel()
	var names []string
	for _, a := range []struct {
		name string
		has  bool
	}{
		{"edit", c.GetEdit() != channelv1.EditLevel_EDIT_LEVEL_UNSPECIFIED}, {"typing", c.GetTyping()},
		{"delete", c.GetDelete()}, {"react", c.GetReact()}, {"fetch", c.GetFetch()}, {"upload", c.GetUpload()},
		{"resolve", c.GetResolve()}, {"reconcile", c.GetReconcile()},
	} {
		if a.has {
			names = append(names, a.name)
		}
	}
	return names
}

// Shutdown asks the plugin to end and waits for it. It returns the error with which the process would have exited.
func (h *Host) Shutdown() error {
	h.t.Helper()
	h.closeStream()
	return h.process.Shutdown()
}
