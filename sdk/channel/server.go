package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// server is one plugin process: the Channel and everything around it that its author need not write.
type server struct {
	pluginv1.UnimplementedPluginServer

	channel Channel
	log     *slog.Logger
	level   *slog.LevelVar
	inbox   inbox

	ctx  context.Context // of Run; lives as long as the server, hence in the struct
	stop context.CancelFunc
	// over is closed when the server should go away, with the reason in failure.
	over     chan struct{}
	overOnce sync.Once
	failure  error

	configuring sync.Mutex // held through Configure
	mu          sync.Mutex // guards configured and host, and the order of calls.Add and stop
	configured  bool
	host        *hostapi.Host  // open while Run or a call is under way
	running     sync.WaitGroup // Run
	calls       sync.WaitGroup // calls of the channel service in flight, but for Receive
}

func newServer(p Channel, log *slog.Logger, level *slog.LevelVar) *server {
	ctx, stop := context.WithCancel(context.Background())
	return &server{
		channel: p, log: log, level: level,
		inbox: inbox{newBacklog(), newBoard()},
		ctx:   ctx, stop: stop,
		over: make(chan struct{}),
	}
}

// register adds the services to g.
func (s *server) register(g *grpc.Server) {
	pluginv1.RegisterPluginServer(g, s)
	channelv1.RegisterChannelServer(g, &outbound{server: s, sent: &recent{}, edits: &revisions{}})
}

// finish asks for the end of the process, once.
func (s *server) finish(why error) {
	s.overOnce.Do(func() {
		s.failure = why
		close(s.over)
	})
}

// Describe says what the plugin is.
func (s *server) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return describe(s.channel), nil
}

// Configure hands the settings to the author and starts Run when they are taken.
func (s *server) Configure(ctx context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if s.configured {
		return nil, status.Error(codes.FailedPrecondition, "configured already; start a new process for a new configuration")
	}
	config, err := s.config(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.channel.Configure(ctx, config); err != nil {
		_ = config.Host.Close()
		return configureFailed(err)
	}
	return &pluginv1.ConfigureResponse{}, s.start(config.Host)
}

// start begins Run, unless the end was asked for in the meantime.
func (s *server) start(h *hostapi.Host) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		_ = h.Close()
		return errEnding()
	}
	s.configured, s.host = true, h
	s.running.Go(s.run)
	return nil
}

func (s *server) config(r *pluginv1.ConfigureRequest) (Config, error) {
	s.level.Set(levelFromWire(r.LogLevel))
	h, err := hostapi.Dial(r.HostEndpoint, r.HostToken)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Host:     h,
		Instance: r.Instance,
		Settings: map[string]any{},
		Secrets:  r.Secrets,
		StateDir: r.StateDir,
		Log:      s.log,
	}
	if len(r.SettingsJson) == 0 {
		return c, nil
	}
	c.text = r.SettingsJson
	if err := json.Unmarshal(r.SettingsJson, &c.Settings); err != nil {
		_ = h.Close()
		return c, fmt.Errorf("decode settings: %w", err)
	}
	return c, nil
}

// configureFailed tells wrong settings, which will stay wrong, from a check that may work later.
func configureFailed(err error) (*pluginv1.ConfigureResponse, error) {
	wrong, ok := errors.AsType[FieldErrors](err)
	if !ok || len(wrong) == 0 {
		return nil, status.Error(codes.Unavailable, utf8(err.Error()))
	}
	out := &pluginv1.ConfigureResponse{}
	for _, f := range wrong {
		out.Errors = append(out.Errors, &pluginv1.FieldError{Path: utf8(f.Path), Message: utf8(f.Message)})
	}
	return out, nil
}

// run is the author's Run with its end turned into the end of the process.
func (s *server) run() {
	err := s.channel.Run(s.ctx, s.inbox)
	if s.ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("returned although nobody asked it to")
	}
	s.finish(fmt.Errorf("run: %w", err))
}

// Status streams the state of the connection.
func (s *server) Status(_ *pluginv1.StatusRequest, stream grpc.ServerStreamingServer[pluginv1.StatusResponse]) error {
	ctx, cancel := s.until(stream.Context())
	defer cancel()
	return s.inbox.watch(ctx, stream.Send)
}

// until derives a context that also ends with the server.
func (s *server) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { release(); cancel() }
}

// Shutdown stops receiving, waits for what is in flight within the grace, and lets the process end.
func (s *server) Shutdown(ctx context.Context, r *pluginv1.ShutdownRequest) (*pluginv1.ShutdownResponse, error) {
	if grace := r.GetGrace().AsDuration(); grace > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, grace)
		defer cancel()
	}
	s.drain(ctx)
	s.finish(nil)
	return &pluginv1.ShutdownResponse{}, nil
}

// drain ends Run and waits for it and for the calls in flight, until ctx ends.
func (s *server) drain(ctx context.Context) {
	s.halt()
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		s.calls.Wait()
		s.running.Wait()
	}()
	select {
	case <-quiet:
	case <-ctx.Done():
		s.log.Warn("ending with work in flight")
	}
}

// hangUp ends the connection to the host. Run and the calls, which may use it to their end, have ended.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.host.Close()
}

// halt ends Run's context and refuses further calls and events.
func (s *server) halt() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.inbox.end()
}

// drainTimeout bounds the end of a process whose host is gone or never asked.
const drainTimeout = 300 * time.Millisecond

// failTimeout bounds the same after a failure, when nobody waits for more than an answer under way.
const failTimeout = 50 * time.Millisecond
