package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/plugin"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/sandboxv1"
)

// Part returns d as one part of a plugin that has another kind, too; see sdk/plugin.
func Part(d Driver) plugin.Part {
	s := &server{driver: d, keys: map[string]*turn{}}
	return plugin.Part{
		Kind:      pluginv1.Kind_KIND_SANDBOX,
		Describe:  s.describe,
		Service:   sandboxv1.Driver_ServiceDesc.ServiceName,
		Register:  func(g *grpc.Server, _ *process.Server) { sandboxv1.RegisterDriverServer(g, s) },
		Configure: d.Configure,
		Run: func(ctx context.Context, b *process.Board) error {
			b.Status(plugin.StateReady, "")
			<-ctx.Done()
			return nil
		},
	}
}

// server serves flynn.sandbox.v1.Driver.
type server struct {
	sandboxv1.UnimplementedDriverServer
	driver Driver

	mu   sync.Mutex
	has  *Capabilities    // as last told
	keys map[string]*turn // of creations under way
}

// turn is held by the creation with a key.
type turn struct {
	sync.Mutex
	users int
}

func (s *server) describe(wire *pluginv1.DescribeResponse) {
	d := s.driver.Describe()
	wire.Name, wire.Version, wire.ConfigSchemaDigest = d.Name, d.Version, process.SchemaDigest(d.ConfigSchema)
	wire.Kinds = append(wire.Kinds, pluginv1.Kind_KIND_SANDBOX)
}

// Capabilities describes the engine.
func (s *server) Capabilities(ctx context.Context, _ *sandboxv1.CapabilitiesRequest) (*sandboxv1.CapabilitiesResponse, error) {
	has, err := s.learn(ctx)
	if err != nil {
		return nil, failed(err)
	}
	wire := &sandboxv1.CapabilitiesResponse{
		Engine: head(has.Engine), Address: head(has.Address), Runtimes: has.Runtimes, Networks: has.Networks, Binds: has.Binds, Copies: has.Copies,
		Shared: head(has.Shared),
	}
	for _, l := range has.Lacks {
		wire.Lacks = append(wire.Lacks, &sandboxv1.Lack{Limit: sandboxv1.Limit(l.Limit), Why: head(l.Why)}) // the protocol counts in the same order
	}
	for _, f := range has.Features {
		wire.Features = append(wire.Features, sandboxv1.Feature(f)) // so are these
	}
	return wire, nil
}

func (s *server) learn(ctx context.Context) (Capabilities, error) {
	has, err := s.driver.Capabilities(ctx)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.has = &has
	}
	return has, err
}

// known returns the capabilities as last told.
func (s *server) known(ctx context.Context) (Capabilities, error) {
	s.mu.Lock()
	has := s.has
	s.mu.Unlock()
	if has != nil {
		return *has, nil
	}
	return s.learn(ctx)
}

// Create creates a container, one at a time for each key.
func (s *server) Create(ctx context.Context, r *sandboxv1.CreateRequest) (*sandboxv1.CreateResponse, error) {
	c, err := containerFromWire(r)
	if err != nil {
		return nil, err
	}
	has, err := s.known(ctx)
	if err == nil {
		err = lacking(has, c)
	}
	if err != nil {
		return nil, failed(err)
	}
	defer s.enter(c.Key)()
	id, err := s.driver.Create(ctx, c)
	if err != nil {
		return nil, failed(err)
	}
	return &sandboxv1.CreateResponse{Id: id}, nil
}

// enter waits for other creations with the key.
func (s *server) enter(key string) (leave func()) {
	s.mu.Lock()
	t := s.keys[key]
	if t == nil {
		t = &turn{}
		s.keys[key] = t
	}
	t.users++
	s.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.keys, key)
		}
	}
}

// lacking returns what a container asks for and the engine cannot hold.
func lacking(has Capabilities, c Container) error {
	if !slices.Contains(has.Networks, c.Network) {
		return fmt.Errorf("%w: network %q, only %q", ErrCannotHold, c.Network, has.Networks)
	}
	if c.Runtime != "" && !slices.Contains(has.Runtimes, c.Runtime) {
		return fmt.Errorf("%w: runtime %q, only %q", ErrCannotHold, c.Runtime, has.Runtimes)
	}
	for _, l := range has.Lacks {
		if !c.BestEffort && l.Limit >= MemoryLimit && l.Limit <= PidsLimit {
			return fmt.Errorf("%w: %s", ErrCannotHold, l.Why)
		}
	}
	for _, m := range c.Mounts {
		switch {
		case m.Kind == Bind && !has.Binds:
			return fmt.Errorf("%w: a folder of the host at %s", ErrCannotHold, m.Target)
		case (m.Kind == Disk || m.Kind == Copy) && !has.Copies:
			return fmt.Errorf("%w: a copy or a disk at %s", ErrCannotHold, m.Target)
		}
	}
	return nil
}

func containerFromWire(r *sandboxv1.CreateRequest) (Container, error) {
	c := Container{
		Key: r.GetKey(), Name: r.GetName(), Image: r.GetImage(), Entrypoint: r.GetEntrypoint(), Labels: r.GetLabels(), Network: r.GetNetwork(),
		MemoryBytes: r.GetMemoryBytes(), CPUs: r.GetCpus(), PidsLimit: r.GetPidsLimit(), BestEffort: r.GetBestEffort(), Runtime: r.GetRuntime(),
		Hosts: r.GetHosts(), Identity: r.GetIdentity(),
	}
	if c.Key == "" || c.Image == "" || len(c.Entrypoint) == 0 || c.Labels[LabelInstance] == "" {
		return c, status.Error(codes.InvalidArgument, "a container needs a key, an image, an entrypoint and the label "+LabelInstance)
	}
	for _, m := range r.GetMounts() {
		kind := MountKind(m.GetKind())  // the protocol counts in the same order
		if kind < Bind || kind > Copy { // leaving it out would change what the container is
			return c, status.Errorf(codes.InvalidArgument, "the mount at %s has a kind that this driver does not know", m.GetTarget())
		}
		c.Mounts = append(c.Mounts, Mount{
			Kind: kind, Source: m.GetSource(), Target: m.GetTarget(), ReadOnly: m.GetReadOnly(),
			Bytes: m.GetBytes(), Alone: m.GetAlone(),
		})
	}
	return c, nil
}

// Pull fetches an image, if the driver does.
func (s *server) Pull(r *sandboxv1.PullRequest, stream grpc.ServerStreamingServer[sandboxv1.PullResponse]) error {
	p, is := s.driver.(Puller)
	if !is {
		return status.Error(codes.Unimplemented, "this driver fetches no images")
	}
	if r.GetImage() == "" {
		return status.Error(codes.InvalidArgument, "a pull needs an image")
	}
	return failed(p.Pull(stream.Context(), r.GetImage(), func(line string) {
		_ = stream.Send(&sandboxv1.PullResponse{Progress: process.UTF8(cut.Head(line, maxProgress))}) // a host that is gone has ended the context
	}))
}

// maxProgress is how much of a line of progress is sent.
const maxProgress = 256

// Start starts a container.
func (s *server) Start(ctx context.Context, r *sandboxv1.StartRequest) (*sandboxv1.StartResponse, error) {
	return &sandboxv1.StartResponse{}, failed(s.driver.Start(ctx, r.GetId()))
}

// Endpoint says where a supervisor listens.
func (s *server) Endpoint(ctx context.Context, r *sandboxv1.EndpointRequest) (*sandboxv1.EndpointResponse, error) {
	e, err := s.driver.Endpoint(ctx, r.GetId())
	return &sandboxv1.EndpointResponse{Network: e.Network, Address: e.Address}, failed(err)
}

// Remove removes a container.
func (s *server) Remove(ctx context.Context, r *sandboxv1.RemoveRequest) (*sandboxv1.RemoveResponse, error) {
	return &sandboxv1.RemoveResponse{}, failed(s.driver.Remove(ctx, r.GetId()))
}

// List lists the containers of an instance. Those without its label, which a driver's engine may have found, are left out.
func (s *server) List(ctx context.Context, r *sandboxv1.ListRequest) (*sandboxv1.ListResponse, error) {
	owned, err := s.driver.List(ctx, r.GetInstance())
	if err != nil {
		return nil, failed(err)
	}
	wire := &sandboxv1.ListResponse{}
	for _, o := range owned {
		if r.GetInstance() == "" || o.Labels[LabelInstance] != r.GetInstance() {
			continue
		}
		one := &sandboxv1.Container{Id: o.ID, Name: process.UTF8(o.Name), Labels: o.Labels, State: o.State, Image: process.UTF8(o.Image)}
		if !o.Created.IsZero() {
			one.Created = timestamppb.New(o.Created)
		}
		wire.Containers = append(wire.Containers, one)
	}
	return wire, nil
}

const maxLine = 1 << 10 // bytes

// head returns the beginning of a text, valid UTF-8.
func head(text string) string { return process.UTF8(cut.Head(text, maxLine)) }

// failed adds a status code to the author's error, unless it has one.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	switch {
	case errors.Is(err, ErrNoImage):
		code = codes.NotFound
	case errors.Is(err, ErrCannotHold):
		code = codes.FailedPrecondition
	case errors.Is(err, ErrUnavailable):
		code = codes.Unavailable
	case status.FromContextError(err).Code() != codes.Unknown:
		code = status.FromContextError(err).Code()
	}
	return status.Error(code, head(err.Error()))
}
