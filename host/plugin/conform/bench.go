package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// bench is what one check works with: the processes that it started, which end with it.
type bench struct {
	kit      *kit
	check    string
	platform *platform // nil until a check needs one, and for plugins that name none
	stateDir string
	offer    *offer
	latest   *subject
	all      []*subject
	posted   int
}

// subject is one process of the plugin.
type subject struct {
	*plugin.Probe
	plugin  pluginv1.PluginClient
	channel channelv1.ChannelClient
	tools   toolv1.ToolsClient
	slack   time.Duration // beyond the limits of the contract
}

// start starts a process of the plugin, up to its handshake.
func (b *bench) start(ctx context.Context, bare bool) (*subject, error) {
	if b.stateDir == "" {
		dir, err := os.MkdirTemp("", "fc")
		if err != nil {
			return nil, err
		}
		b.stateDir = dir
	}
	services, err := b.services()
	if err != nil {
		return nil, err
	}
	t, err := plugin.StartProbe(ctx, plugin.ProbeConfig{
		Dir: b.kit.dir, StateDir: b.stateDir, Bare: bare, Log: b.kit.config.Log, Services: services,
	})
	if err != nil {
		return nil, err
	}
	c := t.Conn()
	s := &subject{t, pluginv1.NewPluginClient(c), channelv1.NewChannelClient(c), toolv1.NewToolsClient(c), b.kit.config.Slack}
	b.latest, b.all = s, append(b.all, s)
	s.connect(ctx)
	return s, nil
}

// connect waits for the connection to stand, since what comes next is timed: a busy machine may need long to encrypt it.
func (s *subject) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Manifest().Run.StartTimeout))
	defer cancel()
	// Any answer will do. Without one, the check itself finds out why.
	_, _ = grpc_health_v1.NewHealthClient(s.Conn()).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
}

// ready starts a process and configures it with what works; with a fake platform, if there is one, to which it has connected.
func (b *bench) ready(ctx context.Context) (*subject, error) {
	if err := b.needPlatform(ctx); err != nil {
		return nil, err
	}
	s, err := b.start(ctx, false)
	if err != nil {
		return nil, err
	}
	out, err := s.plugin.Configure(ctx, b.good(s))
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	if len(out.GetErrors()) > 0 {
		return nil, fmt.Errorf("the plugin refuses the settings of %s: %s", FileName, fieldErrors(out))
	}
	if b.platform == nil {
		return s, nil
	}
	return s, b.connected(ctx, s)
}

// needPlatform starts the fake platform, once, if the plugin names one.
func (b *bench) needPlatform(ctx context.Context) error {
	if b.platform != nil || len(b.kit.file.Fake.Command) == 0 {
		return nil
	}
	p, err := startPlatform(ctx, b.kit.dir, b.kit.file.Fake.Command)
	b.platform = p
	return err
}

// connected waits until the plugin says that it is ready.
func (b *bench) connected(ctx context.Context, s *subject) error {
	ctx, cancel := context.WithTimeout(ctx, 2*b.patience())
	defer cancel()
	stream, err := s.plugin.Status(ctx, &pluginv1.StatusRequest{})
	var last *pluginv1.StatusResponse
	for err == nil {
		if last, err = stream.Recv(); err == nil && last.GetState() == pluginv1.State_STATE_READY {
			return nil
		}
	}
	return fmt.Errorf("the plugin did not say STATE_READY within %v after Configure: %w", 2*b.patience(), err)
}

// patience is how long is waited for what should happen soon.
func (b *bench) patience() time.Duration { return b.kit.config.Patience }

// quiet is how long is waited for what should not happen.
func (b *bench) quiet() time.Duration { return b.kit.config.quiet }

// settings are those with which the plugin works, and its secrets.
func (b *bench) settings() (map[string]any, map[string]string) {
	settings, secrets := maps.Clone(b.kit.file.Settings), maps.Clone(b.kit.file.Secrets)
	if settings == nil {
		settings = map[string]any{}
	}
	if secrets == nil {
		secrets = map[string]string{}
	}
	if b.platform != nil {
		maps.Copy(settings, b.platform.ready.Settings)
		maps.Copy(secrets, b.platform.ready.Secrets)
	}
	return settings, secrets
}

// good is a Configure that works.
func (b *bench) good(s *subject) *pluginv1.ConfigureRequest {
	settings, secrets := b.settings()
	return b.configure(s, settings, secrets)
}

func (b *bench) configure(s *subject, settings map[string]any, secrets map[string]string) *pluginv1.ConfigureRequest {
	text, err := json.Marshal(settings)
	if err != nil { // what TOML and JSON hold always encodes
		panic(err)
	}
	endpoint, token := s.Admit()
	return &pluginv1.ConfigureRequest{
		HostEndpoint: endpoint, HostToken: token, Instance: "conform", SettingsJson: text, Secrets: secrets, StateDir: s.StateDir(), LogLevel: pluginv1.LogLevel_LOG_LEVEL_DEBUG,
	}
}

// alive fails when the plugin does not answer any more.
func (s *subject) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second+s.slack)
	defer cancel()
	if err := s.Healthy(ctx); err != nil {
		return fmt.Errorf("afterwards the plugin does not answer the health service: %w", err)
	}
	return nil
}

// post makes a person say something, which should become an event.
func (b *bench) post(n int) error {
	if b.platform == nil {
		return nil // the plugin makes its events by itself, or has none
	}
	for range n {
		b.posted++
		p := &fake.Post{ID: fmt.Sprint("conform-", b.posted), Text: fmt.Sprint("conform message ", b.posted)}
		if err := b.platform.tell(fake.Command{Post: p}); err != nil {
			return err
		}
	}
	return nil
}

// missing says what it means that no event came.
func (b *bench) missing(err error) error {
	if b.platform == nil {
		return skip("no event came within %v: name a fake platform in %s", b.patience(), FileName)
	}
	return fmt.Errorf("the fake platform has a message, but no event came within %v: %w", b.patience(), err)
}

// lastWords adds how the process ended, if it did. One whose connection broke is about to.
func (b *bench) lastWords(err error) error {
	lag := 100 * time.Millisecond
	if status.Code(err) == codes.Unavailable {
		lag = b.patience()
	}
	if !b.latest.Exited(lag) {
		return err
	}
	if errors.Is(err, errEnded) {
		return err
	}
	return fmt.Errorf("%w; %w", err, b.latest.Ended())
}

var errEnded = errors.New("the process ended")

func (b *bench) close() {
	for _, s := range b.all {
		s.Close()
	}
	if b.platform != nil {
		b.platform.close()
	}
	if b.offer != nil {
		b.offer.close()
	}
	if b.stateDir != "" {
		_ = os.RemoveAll(b.stateDir)
	}
}

// grease adds a field that no receiver can know.
func grease[M proto.Message](m M) M {
	raw := protowire.AppendTag(m.ProtoReflect().GetUnknown(), 7777, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, "from a later version"))
	return m
}

// fieldErrors puts them on one line.
func fieldErrors(out *pluginv1.ConfigureResponse) string {
	var list []string
	for _, e := range out.GetErrors() {
		list = append(list, fmt.Sprintf("%s: %s", e.GetPath(), e.GetMessage()))
	}
	return strings.Join(list, "; ")
}

// code fails unless err has one of the codes.
func code(err error, what string, want ...codes.Code) error {
	if slices.Contains(want, status.Code(err)) {
		return nil
	}
	return fmt.Errorf("%s answers %v, want %v", what, describe(err), want)
}

func describe(err error) string {
	if err == nil {
		return "OK"
	}
	return err.Error()
}
