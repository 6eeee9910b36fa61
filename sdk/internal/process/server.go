package process

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
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Server is one plugin process: its parts and everything that their authors need not write.
type Server struct {
	pluginv1.UnimplementedPluginServer

	parts []Part
	log   *slog.Logger
	level *slog.LevelVar
	board *Board

	ctx  context.Context // of Run; lives as long as the server, and is therefore in the struct
	stop context.CancelFunc
	// over is closed when the server should end, with the reason in failure.
	over     chan struct{}
	overOnce sync.Once
	failure  error

	configuring sync.Mutex // held through Configure
	mu          sync.Mutex // guards configured and host, and the order of calls.Add and stop
	configured  bool
	host        *hostapi.Host  // open while Run or a call is in progress
	running     sync.WaitGroup // Run
	calls       sync.WaitGroup // calls of the parts in flight, except endless streams
}

func newServer(parts []Part, log *slog.Logger, level *slog.LevelVar) *Server {
	ctx, stop := context.WithCancel(context.Background())
	return &Server{
		parts: parts, log: log, level: level, board: newBoard(),
		ctx: ctx, stop: stop,
		over: make(chan struct{}),
	}
}

// register adds the services to g.
func (s *Server) register(g *grpc.Server) {
	pluginv1.RegisterPluginServer(g, s)
	for _, p := range s.parts {
		p.Register(g, s)
	}
}

// finish asks for the end of the process, once.
func (s *Server) finish(why error) {
	s.overOnce.Do(func() {
		s.failure = why
		close(s.over)
	})
}

// Describe returns the description of the plugin.
func (s *Server) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return describe(s.parts), nil
}

// Configure passes the settings to the parts and starts them if the settings are accepted.
func (s *Server) Configure(ctx context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if s.configured {
		return nil, status.Error(codes.FailedPrecondition, "configured already; start a new process for a new configuration")
	}
	config, err := s.config(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	for _, p := range s.parts {
		if err := p.Configure(ctx, config); err != nil {
			_ = config.Host.Close()
			return configureFailed(err)
		}
	}
	for _, p := range s.parts {
		if p.Begin != nil {
			p.Begin(r)
		}
	}
	return &pluginv1.ConfigureResponse{}, s.start(config.Host, r.GetKind())
}

// start runs the parts that the host uses, unless the end was requested meanwhile. A chat bot of which only the tools are used must not
// take messages from the instance that is its channel.
func (s *Server) start(h *hostapi.Host, used pluginv1.Kind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		_ = h.Close()
		return errEnding()
	}
	s.configured, s.host = true, h
	for _, p := range s.parts {
		if p.Run != nil && (used == pluginv1.Kind_KIND_UNSPECIFIED || used == p.Kind) {
			s.running.Go(func() { s.run(p) })
		}
	}
	return nil
}

func (s *Server) config(r *pluginv1.ConfigureRequest) (Config, error) {
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

// configureFailed returns field errors for wrong settings, and a status for a check that may succeed later.
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

// run runs the author's Run and ends the process when it returns.
func (s *Server) run(p Part) {
	err := p.Run(s.ctx, s.board)
	if s.ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("returned before it was asked to")
	}
	s.finish(fmt.Errorf("run: %w", err))
}

// Status streams the state of the connection.
func (s *Server) Status(_ *pluginv1.StatusRequest, stream grpc.ServerStreamingServer[pluginv1.StatusResponse]) error {
	ctx, cancel := s.Until(stream.Context())
	defer cancel()
	return s.board.watch(ctx, stream.Send)
}

// Until returns a context that also ends with the server.
func (s *Server) Until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { release(); cancel() }
}

// Shutdown stops receiving, waits for calls in flight within the grace period, and lets the process end.
func (s *Server) Shutdown(ctx context.Context, r *pluginv1.ShutdownRequest) (*pluginv1.ShutdownResponse, error) {
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
func (s *Server) drain(ctx context.Context) {
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

// hangUp closes the connection to the host. Run and the calls, which may use it until they end, have ended.
func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.host.Close()
}

// halt ends Run's context and refuses further calls and events.
func (s *Server) halt() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	for _, p := range s.parts {
		if p.End != nil {
			p.End()
		}
	}
}

// drainTimeout bounds the end of a process whose host is gone or did not ask.
const drainTimeout = 300 * time.Millisecond

// failTimeout bounds the same after a failure, when nobody waits for more than an answer in flight.
const failTimeout = 50 * time.Millisecond

// Log returns the plugin's log.
func (s *Server) Log() *slog.Logger { return s.log }
