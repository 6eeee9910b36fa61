// Package plugintest is a host for tests of channel plugins: it drives a Channel through the real SDK over an in-memory
// connection, without a process.
//
// Begin with Start. Event, Ack and Reconnect play the host's side of the event stream, Send and its
// fellows the other direction. Every wait is bounded; what does not come fails the test. What the host offers to the plugin
// (Config.Permissions) is kept in memory, where Services shows it; Webhook sends HTTP requests.
//
//	h := plugintest.Start(t, &irc{}, plugintest.Config{Settings: map[string]any{"server": addr}})
//	e := h.Event()
//	h.Ack()
package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Config is what the plugin is started with. The zero value works.
type Config struct {
	Instance string // "test"
	Settings map[string]any
	Secrets  map[string]string
	StateDir string        // a folder of the test
	Window   int           // 32
	Timeout  time.Duration // of every single wait; 10 s
	// Permissions are what plugin.toml asks for under permissions.host: "kv", "media", "webhook", "metric".
	Permissions []string
	Services    *Services // what an earlier plugin of the test has left; new ones
}

// Host is a host with one running plugin.
type Host struct {
	t       testing.TB
	config  Config
	conn    *grpc.ClientConn
	plugin  pluginv1.PluginClient
	channel channelv1.ChannelClient
	exited  chan struct{}
	failure error // valid once exited is closed

	endpoint, token string // of the services; empty when none is granted
	hookURL         string // of the instance's webhooks; empty when they are not granted

	stream *stream
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

// TryStart is Start for configurations that may be refused: the error is a channel.FieldErrors when the settings are wrong.
func TryStart(t testing.TB, p channel.Channel, c Config) (*Host, error) {
	t.Helper()
	h := &Host{t: t, config: withDefaults(t, c), exited: make(chan struct{})}
	if err := h.serveServices(); err != nil { // first, so that they end last
		return nil, err
	}
	h.serve(p)
	if err := h.configure(); err != nil {
		return nil, err
	}
	h.open()
	return h, nil
}

func withDefaults(t testing.TB, c Config) Config {
	if c.Instance == "" {
		c.Instance = "test"
	}
	if c.StateDir == "" {
		c.StateDir = t.TempDir()
	}
	if c.Window == 0 {
		c.Window = 32
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Services == nil {
		c.Services = NewServices()
	}
	return c
}

// serve runs the plugin and connects to it.
func (h *Host) serve(p channel.Channel) {
	t, lis := h.t, bufconn.Listen(handshake.MaxFrame)
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(h.exited)
		h.failure = channel.Serve(ctx, lis, p, log)
	}()
	conn, err := grpc.NewClient("passthrough:plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(handshake.MaxFrame)))
	if err != nil {
		t.Fatal(err)
	}
	h.conn, h.plugin, h.channel = conn, pluginv1.NewPluginClient(conn), channelv1.NewChannelClient(conn)
	t.Cleanup(func() {
		h.closeStream()
		cancel()
		<-h.exited
		_ = conn.Close()
	})
}

// testWriter sends the plugin's log to the test's.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("plugin: %s", p)
	return len(p), nil
}

func (h *Host) configure() error {
	ctx, cancel := h.deadline()
	defer cancel()
	settings, err := json.Marshal(h.config.Settings)
	if err != nil {
		return err
	}
	if h.config.Settings == nil {
		settings = []byte("{}")
	}
	r, err := h.plugin.Configure(ctx, &pluginv1.ConfigureRequest{
		HostEndpoint: h.endpoint, HostToken: h.token,
		Instance: h.config.Instance, SettingsJson: settings, Secrets: h.config.Secrets,
		StateDir: h.config.StateDir, LogLevel: pluginv1.LogLevel_LOG_LEVEL_DEBUG,
	})
	if err != nil {
		return err
	}
	var wrong channel.FieldErrors
	for _, e := range r.Errors {
		wrong = append(wrong, channel.FieldError{Path: e.Path, Message: e.Message})
	}
	if wrong != nil {
		return wrong
	}
	return nil
}

func (h *Host) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), h.config.Timeout)
}

// Abilities names the optional methods that the plugin declares: "edit", "typing", "delete", "react", "fetch",
// "upload", "resolve", "reconcile", in this order.
func (h *Host) Abilities() []string {
	h.t.Helper()
	ctx, cancel := h.deadline()
	defer cancel()
	d, err := h.plugin.Describe(ctx, &pluginv1.DescribeRequest{})
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

// WaitStatus waits until the plugin shows the state and returns its text.
func (h *Host) WaitStatus(want channel.State) string {
	h.t.Helper()
	ctx, cancel := h.deadline()
	defer cancel()
	stream, err := h.plugin.Status(ctx, &pluginv1.StatusRequest{})
	if err != nil {
		h.t.Fatalf("status: %v", err)
	}
	for {
		s, err := stream.Recv()
		if err != nil {
			h.t.Fatalf("wait for state %d: %v", want, err)
		}
		if channel.State(s.State) == want {
			return s.Text
		}
	}
}

// Shutdown asks the plugin to end and waits for it. It returns the error with which the plugin would have exited.
func (h *Host) Shutdown() error {
	h.t.Helper()
	h.closeStream()
	ctx, cancel := h.deadline()
	defer cancel()
	if _, err := h.plugin.Shutdown(ctx, &pluginv1.ShutdownRequest{}); err != nil {
		return err
	}
	return h.Wait()
}

// Wait waits for the plugin to end by itself and returns the error with which it would have exited.
func (h *Host) Wait() error {
	h.t.Helper()
	select {
	case <-h.exited:
		return h.failure
	case <-time.After(h.config.Timeout):
		return errors.New("the plugin does not end")
	}
}
