package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/sandboxv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// T is a running check with its platform and its processes, which end with it. Its methods end the check when they fail, like those of
// testing.T, and are called on the check's goroutine.
type T struct {
	ctx    context.Context
	plugin Plugin
	config Config
	check  string
	bench  Bench
	stage  *stage // nil until a check needs a platform, and for plugins without one
	all    []*process
	posted int
}

// stop is the value with which a check panics in order to end.
type stop struct{ err error }

// errSkip is the reason why a check was skipped.
type errSkip struct{ why string }

func (e errSkip) Error() string { return e.why }

// Fail ends the check as failed.
func (t *T) Fail(format string, args ...any) { panic(stop{fmt.Errorf(format, args...)}) }

// Skip ends the check as skipped.
func (t *T) Skip(format string, args ...any) { panic(stop{errSkip{fmt.Sprintf(format, args...)}}) }

// must fails the check on an error.
func (t *T) must(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// run executes the check and returns the error with which it stopped.
func (t *T) run(c Check) (err error) {
	if t.bench, err = t.plugin.Bench(c.Name); err != nil {
		return err
	}
	defer t.close()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stop:
			err = t.lastWords(p.err)
		default:
			panic(p)
		}
	}()
	c.Run(t)
	return nil
}

func (t *T) close() {
	for _, p := range t.all {
		p.Close()
	}
	if t.stage != nil {
		t.stage.platform.Close()
	}
	t.bench.Close()
}

// lastWords adds how the latest process ended, if it did. If the connection to a process broke, the process is about to end.
func (t *T) lastWords(err error) error {
	if _, skipped := errors.AsType[errSkip](err); skipped || len(t.all) == 0 {
		return err
	}
	lag := 100 * time.Millisecond
	if status.Code(err) == codes.Unavailable {
		lag = t.config.Patience
	}
	if last := t.all[len(t.all)-1]; last.Exited(lag) {
		if why := last.Ended(); why != nil {
			return fmt.Errorf("%w; %w", err, why)
		}
	}
	return err
}

// soon bounds a call that a working plugin answers at once.
func (t *T) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, t.config.Patience)
}

// process is one process of the plugin.
type process struct {
	Process
	t       *T
	plugin  pluginv1.PluginClient
	channel channelv1.ChannelClient
	tools   toolv1.ToolsClient
	sandbox sandboxv1.DriverClient
}

// connectLimit is generous: a busy machine may need long to encrypt a connection.
const connectLimit = 40 * time.Second

// start starts a process of the plugin, up to its handshake.
func (t *T) start(bare bool) *process {
	started, err := t.bench.Start(t.ctx, bare)
	t.must(err)
	c := started.Conn()
	p := &process{started, t, pluginv1.NewPluginClient(c), channelv1.NewChannelClient(c), toolv1.NewToolsClient(c), sandboxv1.NewDriverClient(c)}
	t.all = append(t.all, p)
	// Calls are timed from here on, so the connection must be established. Any answer will do; if there is none, the check finds out why.
	ctx, cancel := context.WithTimeout(t.ctx, connectLimit)
	defer cancel()
	_, _ = grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	return p
}

// unconfigured starts a process, and the fake platform, whose address belongs to the settings.
func (t *T) unconfigured() *process {
	t.needPlatform()
	return t.start(false)
}

// ready starts and configures a process and waits until it has connected to its fake platform, if there is one.
func (t *T) ready() *process {
	p := t.unconfigured()
	p.begin()
	return p
}

// able is ready for a check of an optional ability: it skips the check if Describe does not declare it.
func (t *T) able(what string, declared func(*channelv1.Capabilities) bool) *process {
	p := t.unconfigured()
	if !declared(p.describe().GetChannel()) {
		t.Skip("the channel has no %s", what)
	}
	p.begin()
	return p
}

// begin configures the process.
func (p *process) begin() {
	out, err := p.plugin.Configure(p.t.ctx, p.good())
	if err != nil {
		p.t.Fail("configure: %w", err)
	}
	if len(out.GetErrors()) > 0 {
		p.t.Fail("the plugin refuses the settings of %s: %s", p.t.plugin.Source, fieldErrors(out))
	}
	if p.t.stage != nil {
		p.connected()
	}
}

// connected waits until the plugin reports that it is ready.
func (p *process) connected() {
	within := 2 * p.t.config.Patience
	ctx, cancel := context.WithTimeout(p.t.ctx, within)
	defer cancel()
	stream, err := p.plugin.Status(ctx, &pluginv1.StatusRequest{})
	for err == nil {
		var last *pluginv1.StatusResponse
		if last, err = stream.Recv(); err == nil && last.GetState() == pluginv1.State_STATE_READY {
			return
		}
	}
	p.t.Fail("the plugin did not say STATE_READY within %v after Configure: %w", within, err)
}

// describeLimit is generous: a slow machine is not the plugin's fault.
const describeLimit = 2 * time.Second

func (p *process) describe() *pluginv1.DescribeResponse {
	ctx, cancel := context.WithTimeout(p.t.ctx, describeLimit+p.t.config.Slack)
	defer cancel()
	d, err := p.plugin.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "0.0.0"})
	if err != nil {
		p.t.Fail("describe: %w", err)
	}
	return d
}

// healthy makes one health call.
func (p *process) healthy(ctx context.Context) error {
	r, err := grpc_health_v1.NewHealthClient(p.Conn()).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: handshake.Service})
	if err == nil && r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("the health service answers %v", r.GetStatus())
	}
	return err
}

// alive fails if the plugin does not answer any more.
func (p *process) alive() {
	ctx, cancel := context.WithTimeout(p.t.ctx, 3*time.Second+p.t.config.Slack)
	defer cancel()
	if err := p.healthy(ctx); err != nil {
		p.t.Fail("afterwards the plugin does not answer the health service: %w", err)
	}
}

// exits fails if the process still runs some time after what has to end it.
func (p *process) exits(within time.Duration, after string) {
	if within += p.t.config.Slack; !p.Exited(within) {
		p.t.Fail("the process runs %v after %s", within, after)
	}
}

// Settings returns settings and secrets with which the plugin works.
func (t *T) Settings() (map[string]any, map[string]string) {
	settings, secrets := map[string]any{}, map[string]string{}
	maps.Copy(settings, t.plugin.Settings)
	maps.Copy(secrets, t.plugin.Secrets)
	if t.needPlatform(); t.stage != nil {
		maps.Copy(settings, t.stage.ready.Settings)
		maps.Copy(secrets, t.stage.ready.Secrets)
	}
	return settings, secrets
}

// good returns a Configure request that works.
func (p *process) good() *pluginv1.ConfigureRequest { return p.configure(p.t.Settings()) }

func (p *process) configure(settings map[string]any, secrets map[string]string) *pluginv1.ConfigureRequest {
	text, err := json.Marshal(settings)
	p.t.must(err)
	endpoint, token := p.Admit()
	return &pluginv1.ConfigureRequest{
		HostEndpoint: endpoint, HostToken: token, Instance: "conform", SettingsJson: text, Secrets: secrets, StateDir: p.StateDir(),
		LogLevel: pluginv1.LogLevel_LOG_LEVEL_DEBUG,
	}
}

// fieldErrors returns the field errors on one line.
func fieldErrors(out *pluginv1.ConfigureResponse) string {
	var list []string
	for _, e := range out.GetErrors() {
		list = append(list, fmt.Sprintf("%s: %s", e.GetPath(), e.GetMessage()))
	}
	return strings.Join(list, "; ")
}

// answers fails unless err has one of the codes.
func (t *T) answers(err error, what string, want ...codes.Code) {
	if !slices.Contains(want, status.Code(err)) {
		if err == nil {
			t.Fail("%s answers OK, want %v", what, want)
		}
		t.Fail("%s answers %w, want %v", what, err, want)
	}
}

func describe(err error) string {
	if err == nil {
		return "OK"
	}
	return err.Error()
}

// needPlatform starts the fake platform, once, if the plugin has one.
func (t *T) needPlatform() {
	if t.stage != nil {
		return
	}
	s := &stage{changed: make(chan struct{})}
	var err error
	s.ready, s.platform, err = t.bench.Platform(t.ctx, s.add)
	t.must(err)
	if s.platform != nil {
		t.stage = s
	}
}

// post makes a person write n messages, which should become events.
func (t *T) post(n int) {
	if t.stage == nil {
		return // the plugin makes its events by itself, or has none
	}
	for range n {
		t.posted++
		t.must(t.stage.platform.Post(fake.Post{ID: fmt.Sprint("conform-", t.posted), Text: fmt.Sprint("conform message ", t.posted)}))
	}
}
