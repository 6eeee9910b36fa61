package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/flynnhost/flynn/sdk/plugin"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// process is one running plugin of any kind.
type process struct {
	t       testing.TB
	config  Config
	conn    *grpc.ClientConn
	plugin  pluginv1.PluginClient
	exited  chan struct{}
	failure *error // valid once exited is closed

	end func() // ends the plugin, without waiting

	endpoint, token string // of the services; empty if none is granted
	hookURL         string // of the instance's webhooks; empty if they are not granted
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
		c.Timeout = 30 * time.Second
	}
	if c.Services == nil {
		c.Services = NewServices()
	}
	return c
}

// serve runs the plugin and connects to it.
func serve(t testing.TB, c Config, parts ...plugin.Part) (process, error) {
	lis := bufconn.Listen(handshake.MaxFrame)
	h := process{t: t, config: c, exited: make(chan struct{}), failure: new(error)}
	if err := h.serveServices(); err != nil { // first, so that they end last
		return h, err
	}
	log := slog.New(slog.NewTextHandler(newTestWriter(t), &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(context.Background())
	h.end = cancel
	go func() {
		defer close(h.exited)
		*h.failure = plugin.Serve(ctx, lis, log, parts...)
	}()
	conn, err := grpc.NewClient("passthrough:plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(handshake.MaxFrame)),
		grpc.WithUnaryInterceptor(within(c.Timeout)))
	if err != nil {
		t.Fatal(err)
	}
	h.conn, h.plugin = conn, pluginv1.NewPluginClient(conn)
	t.Cleanup(func() {
		cancel()
		<-h.exited
		_ = conn.Close()
	})
	return h, nil
}

// within bounds every unary call.
func within(d time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return call(ctx, method, req, reply, cc, opts...)
	}
}

// testWriter sends the plugin's log to the test's log while the test runs. Goroutines of a plugin's libraries may log even later.
type testWriter struct {
	t    testing.TB
	mu   sync.Mutex
	over bool
}

func newTestWriter(t testing.TB) *testWriter {
	w := &testWriter{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = true
	})
	return w
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Logf("plugin: %s", p)
	}
	return len(p), nil
}

func (h *process) configure() error {
	settings, err := json.Marshal(h.config.Settings)
	if err != nil {
		return err
	}
	if h.config.Settings == nil {
		settings = []byte("{}")
	}
	request := &pluginv1.ConfigureRequest{
		HostEndpoint: h.endpoint, HostToken: h.token,
		Instance: h.config.Instance, SettingsJson: settings, Secrets: h.config.Secrets,
		StateDir: h.config.StateDir, LogLevel: pluginv1.LogLevel_LOG_LEVEL_DEBUG, Lease: h.config.Leases != nil,
	}
	r, err := h.plugin.Configure(context.Background(), request)
	if err != nil {
		return err
	}
	var wrong plugin.FieldErrors
	for _, e := range r.Errors {
		wrong = append(wrong, plugin.FieldError{Path: e.Path, Message: e.Message})
	}
	if wrong != nil {
		return wrong
	}
	return nil
}

func (h *process) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), h.config.Timeout)
}

// WaitStatus waits until the plugin reports the state and returns its text.
func (h *process) WaitStatus(want plugin.State) string {
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
		if plugin.State(s.State) == want {
			return s.Text
		}
	}
}

// Wait waits for the plugin to end by itself and returns the error with which the process would have exited.
func (h *process) Wait() error {
	h.t.Helper()
	select {
	case <-h.exited:
		return *h.failure
	case <-time.After(h.config.Timeout):
		return errors.New("the plugin did not end")
	}
}

// Shutdown asks the plugin to end and waits for it. It returns the error with which the process would have exited.
func (h *process) Shutdown() error {
	h.t.Helper()
	if _, err := h.plugin.Shutdown(context.Background(), &pluginv1.ShutdownRequest{}); err != nil {
		return err
	}
	return h.Wait()
}
