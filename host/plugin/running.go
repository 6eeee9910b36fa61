package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// running is a plugin process after its handshake.
type running struct {
	runner   *runnerProcess
	conn     *grpc.ClientConn
	manifest Manifest
	instance Instance
	schema   string // digest of the settings' schema
	release  string // see kind.Conn
	stateDir string
	measures []jail.Measure
	host     *Host
	output   *output
	remove   func()      // kills, waits, removes the sockets
	group    *jail.Group // nil without one
	grant    grant
	log      *slog.Logger
	timeouts timeouts

	tooHeavy atomic.Pointer[heavy] // set if the process was killed because of its memory
	killing  sync.Once
	stdio    sync.WaitGroup
	stdioOn  context.Context // ends before the shutdown, which the stream would delay
	deafen   context.CancelFunc
}

var _ process = (*running)(nil)

func (r *running) pid() int                   { return r.runner.pid() }
func (r *running) version() string            { return r.manifest.Version }
func (r *running) held() []jail.Measure       { return r.measures }
func (r *running) exited() <-chan struct{}    { return r.runner.done }
func (r *running) stopTimeout() time.Duration { return time.Duration(r.manifest.Run.StopTimeout) }

func (r *running) lease() kind.Lease { return r.manifest.lease(r.instance) }

// failure says how the process ended, with its last output.
func (r *running) failure() error {
	if h := r.tooHeavy.Load(); h != nil {
		return h
	}
	if r.group != nil && r.runner.exit != nil && r.group.Exceeded() {
		return fmt.Errorf("the process was ended: with its children it used more than %d MiB of memory (memory_limit of its instance, or twice run.memory of plugin.toml)",
			r.instance.hardLimit(r.manifest)>>20)
	}
	how := "exit status 0"
	if r.runner.exit != nil {
		how = r.runner.exit.Error()
	}
	if lines := r.output.lines(); lines != "" {
		return fmt.Errorf("the process ended (%s); it wrote: %s", how, lines)
	}
	return fmt.Errorf("the process ended (%s)", how)
}

// describe calls Describe. A difference from the manifest is a permanent error, because the operator has seen the manifest, and the
// host decides by it.
func (r *running) describe(ctx context.Context) error {
	r.stdio.Go(r.drainStdio)
	if r.runner != nil && !r.weighed() { // an attached process has no runner
		r.stdio.Go(r.weigh)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeouts.describe)
	defer cancel()
	d, err := pluginv1.NewPluginClient(r.conn).Describe(ctx, &pluginv1.DescribeRequest{HostVersion: r.host.config.Version})
	if err != nil {
		return err
	}
	if r.lease() != nil && !d.GetLease() {
		return permanent{fmt.Errorf("other hosts share the store, and plugin %s obeys no lease, so that two of them could use the account at the same time: "+
			"install a release of it that is built with this release of the SDK, or set shared = true in the [channel] table of its %s if its platform permits that",
			r.manifest.Name, ManifestName)}
	}
	if wrong := r.disagreements(d); len(wrong) > 0 {
		return permanent{fmt.Errorf("the process contradicts %s: %s", ManifestName, strings.Join(wrong, "; "))}
	}
	return nil
}

// disagreements describes the differences between a process and its manifest.
func (r *running) disagreements(d *pluginv1.DescribeResponse) []string {
	m := r.manifest
	var out []string
	if d.GetName() != m.Name {
		out = append(out, fmt.Sprintf("name is %s, but the process reports %.40q", m.Name, d.GetName()))
	}
	if d.GetVersion() != m.Version {
		out = append(out, fmt.Sprintf("version is %s, but the process reports %.40q", m.Version, d.GetVersion()))
	}
	if !slices.Contains(d.GetProtocols(), handshake.Protocol) {
		out = append(out, fmt.Sprintf("the process does not speak protocol %d", handshake.Protocol))
	}
	if d.GetConfigSchemaDigest() != r.schema {
		out = append(out, fmt.Sprintf("config.schema %q is not the schema that the process was built with", m.Config.Schema))
	}
	return append(out, r.host.config.Kinds.differences(m, d)...)
}

// configure sends settings and secrets. A refusal of the settings is a permanent error.
func (r *running) configure(ctx context.Context) error {
	settings, err := encodeSettings(r.instance.Settings)
	if err != nil {
		return permanent{err}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.manifest.Run.StartTimeout))
	defer cancel()
	endpoint, token := r.admit()
	out, err := pluginv1.NewPluginClient(r.conn).Configure(ctx, &pluginv1.ConfigureRequest{
		Instance:     r.instance.Name,
		SettingsJson: settings,
		Secrets:      r.instance.Secrets,
		StateDir:     r.stateDir,
		LogLevel:     logLevel(r.log),
		HostEndpoint: endpoint,
		HostToken:    token,
		Kind:         r.host.config.Kinds.Get(r.instance.Kind).Wire(),
		Lease:        r.lease() != nil,
	})
	if status.Code(err) == codes.InvalidArgument {
		return permanent{err}
	}
	if err != nil {
		return err
	}
	return r.fieldErrors(out.GetErrors())
}

// Bounds on configuration.
const (
	maxSettings    = 256 << 10 // bytes
	maxFieldErrors = 20        // count
)

func (r *running) fieldErrors(list []*pluginv1.FieldError) error {
	if len(list) == 0 {
		return nil
	}
	var wrong []string
	for _, e := range list[:min(len(list), maxFieldErrors)] {
		path, text := kind.Text(e.GetPath(), kind.MaxName), kind.Text(e.GetMessage(), kind.MaxDetail)
		var key []string
		if path != "" {
			key = strings.Split(path, ".")
		}
		wrong = append(wrong, r.output.mask.Replace(r.host.located(r.instance, key, path, text)))
	}
	return permanent{errors.New(strings.Join(wrong, "; "))}
}

func logLevel(log *slog.Logger) pluginv1.LogLevel {
	for _, l := range []struct {
		level slog.Level
		wire  pluginv1.LogLevel
	}{
		{slog.LevelDebug, pluginv1.LogLevel_LOG_LEVEL_DEBUG},
		{slog.LevelInfo, pluginv1.LogLevel_LOG_LEVEL_INFO},
		{slog.LevelWarn, pluginv1.LogLevel_LOG_LEVEL_WARN},
	} {
		if log.Enabled(context.Background(), l.level) {
			return l.wire
		}
	}
	return pluginv1.LogLevel_LOG_LEVEL_ERROR
}

// check makes one health call.
func (r *running) check(ctx context.Context) error {
	out, err := grpc_health_v1.NewHealthClient(r.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: handshake.Service})
	if err == nil && out.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("the plugin reports %s", out.GetStatus())
	}
	return err
}

// watch receives the states that the plugin reports, at most one per timeouts.statusEvery: a plugin that reports more is slowed down by
// the stream's back pressure.
func (r *running) watch(ctx context.Context, tell func(s State, detail, login string)) {
	stream, err := pluginv1.NewPluginClient(r.conn).Status(ctx, &pluginv1.StatusRequest{})
	if err != nil {
		return
	}
	for {
		s, err := stream.Recv()
		if err != nil {
			return
		}
		state, detail := platformState(s)
		tell(state, detail, loginCode(s))
		select {
		case <-time.After(r.timeouts.statusEvery):
		case <-ctx.Done():
			return
		}
	}
}

// CredentialRefused begins the detail of an instance whose platform does not accept its credential.
const CredentialRefused = "a credential must be renewed"

func platformState(s *pluginv1.StatusResponse) (State, string) {
	text := kind.Text(s.GetText(), kind.MaxDetail)
	var prefix string
	switch s.GetState() {
	case pluginv1.State_STATE_CONNECTING:
		prefix = "connecting"
	case pluginv1.State_STATE_DEGRADED:
		prefix = "degraded"
	case pluginv1.State_STATE_AUTH_REQUIRED:
		prefix = CredentialRefused
	case pluginv1.State_STATE_RATE_LIMITED:
		prefix = "rate limited"
	default:
		return Ready, text
	}
	if text != "" {
		prefix += ": " + text
	}
	return Degraded, prefix
}

func (r *running) use(gone, draining context.Context) *kind.Conn {
	return &kind.Conn{
		ClientConnInterface: r.conn, Instance: r.instance.Name, Release: r.release, Settings: r.instance.Settings, Options: r.manifest.Options[r.instance.Kind],
		Lease: r.lease(), Log: r.log, Gone: gone, Draining: draining,
	}
}

// shutdown asks the process to end, then closes its lifeline, and waits a little after each.
func (r *running) shutdown(ctx context.Context) {
	grace := r.stopTimeout()
	if deadline, ok := ctx.Deadline(); ok {
		grace = time.Until(deadline)
	}
	r.deafen()
	_, err := pluginv1.NewPluginClient(r.conn).Shutdown(ctx, &pluginv1.ShutdownRequest{Grace: durationpb.New(grace)})
	if err == nil && r.gone(ctx) {
		return
	}
	r.runner.hangUp()
	ctx, cancel := context.WithTimeout(context.Background(), r.timeouts.stdin)
	defer cancel()
	r.gone(ctx)
}

// gone waits for the process to end and reports whether it did before ctx.
func (r *running) gone(ctx context.Context) bool {
	select {
	case <-r.exited():
		return true
	case <-ctx.Done():
		return false
	}
}

// kill kills the process if it still runs, and frees its resources.
func (r *running) kill() {
	r.killing.Do(func() {
		r.remove()
		r.grant.end()
		r.deafen()
		_ = r.conn.Close()
		r.stdio.Wait()
	})
}

// drainStdio reads what a Go plugin prints after the handshake: go-plugin's server captures it and would block the plugin if nobody read
// it. The messages are read as unknown fields, because their types are private to the library. It does nothing for plugins without the
// service.
func (r *running) drainStdio() {
	stream, err := r.conn.NewStream(r.stdioOn, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil {
		return
	}
	if stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	for {
		var data emptypb.Empty
		if stream.RecvMsg(&data) != nil {
			return
		}
		r.output.stdout(strings.NewReader(string(stdioBytes(data.ProtoReflect().GetUnknown()))))
	}
}

// stdioBytes is field 2 of plugin.StdioData.
func stdioBytes(raw []byte) []byte {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return nil
		}
		raw = raw[n:]
		if number == 2 && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(raw)
			return value
		}
		if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
			return nil
		}
		raw = raw[n:]
	}
	return nil
}

// observe publishes every call.
func (h *Host) observe(instance string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		begin := time.Now()
		err := call(ctx, method, req, reply, conn, opts...)
		h.config.Events.Publish(Called{instance, method, time.Since(begin), err})
		return err
	}
}
