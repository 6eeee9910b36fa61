package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/sandboxv1"
)

// The host's own deadlines. An engine may have to unpack an image before it creates a container.
const (
	describeTimeout = 10 * time.Second
	createTimeout   = 2 * time.Minute
	startTimeout    = time.Minute
	endpointTimeout = time.Minute
	removeTimeout   = time.Minute
	listTimeout     = 30 * time.Second
	pullTimeout     = 15 * time.Minute
)

// Bounds on what a driver says.
const (
	maxRuntimes   = 64
	maxLacks      = 16
	maxFeatures   = 16
	maxContainers = 4096
	maxLabels     = 64
	maxLabel      = 1 << 10 // bytes of a value
)

// Capabilities describe a driver and its engine.
type Capabilities struct {
	Engine, Address string
	Runtimes        []string
	Lacks           []Lack
	Networks        []string
	Binds, Copies   bool
	Shared          string
	Features        []sandboxv1.Feature
}

// Lack is a limit that the engine cannot hold.
type Lack struct {
	Limit sandboxv1.Limit
	Why   string
}

// Container is a container that an instance of Flynn made.
type Container struct {
	ID, Name, State, Image string
	Labels                 map[string]string
	Created                time.Time
}

// Failure is a call that the driver answered with a status, or did not answer in time.
type Failure struct {
	Code codes.Code
	Text string // for people
}

func (f *Failure) Error() string { return f.Text }

// Client is the client of one ready driver, for the duration of one Handler.Serve. It can be used by many goroutines.
type Client struct {
	*kind.Conn
	rpc sandboxv1.DriverClient
}

// NewClient returns the client of a ready process.
func NewClient(c *kind.Conn) *Client { return &Client{c, sandboxv1.NewDriverClient(c)} }

// failed makes a Failure of the error of a call.
func failed(doing string, began time.Time, err error) error {
	if err == nil {
		return nil
	}
	s, _ := status.FromError(err)
	text := kind.Text(s.Message(), kind.MaxDetail)
	if s.Code() == codes.DeadlineExceeded {
		text = fmt.Sprintf("no answer within %v", time.Since(began).Round(time.Second)) // the caller may have had less time than the call
	}
	return &Failure{s.Code(), doing + ": " + text}
}

// broke is the error of an answer that does not follow the contract.
func broke(format string, args ...any) error {
	return &Failure{codes.Internal, "the driver broke the protocol: " + fmt.Sprintf(format, args...)}
}

// effect derives the context of a call that may have an effect, with a deadline of the host's own; see kind.Conn.Effect.
func (c *Client) effect(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	ctx, release := c.Effect(ctx)
	return ctx, func() { release(); cancel() }
}

// Capabilities asks for the driver's capabilities, and the engine for a sign of life.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	r, err := c.rpc.Capabilities(ctx, &sandboxv1.CapabilitiesRequest{})
	if err != nil {
		return Capabilities{}, failed("describe the engine", began, err)
	}
	out := Capabilities{
		Engine: kind.Text(r.GetEngine(), kind.MaxName), Address: kind.Text(r.GetAddress(), kind.MaxName), Binds: r.GetBinds(), Copies: r.GetCopies(),
		Shared:   kind.Text(r.GetShared(), kind.MaxName),
		Features: r.GetFeatures(),
	}
	if len(r.GetRuntimes()) > maxRuntimes || len(r.GetLacks()) > maxLacks || len(r.GetNetworks()) > maxRuntimes ||
		len(r.GetFeatures()) > maxFeatures {
		return Capabilities{}, broke("its capabilities are too long")
	}
	for _, name := range r.GetRuntimes() {
		if !validID().MatchString(name) {
			return Capabilities{}, broke("%.80q is not a runtime's name", name)
		}
	}
	out.Runtimes = r.GetRuntimes()
	for _, network := range r.GetNetworks() {
		switch network {
		case "none", "bridge", "host":
			out.Networks = append(out.Networks, network)
		}
	}
	for _, l := range r.GetLacks() {
		out.Lacks = append(out.Lacks, Lack{l.GetLimit(), kind.Text(l.GetWhy(), kind.MaxDetail)})
	}
	return out, nil
}

// Pull fetches an image and reports its progress, as often as the driver does.
func (c *Client) Pull(ctx context.Context, image string, progress func(line string)) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, pullTimeout) // what was fetched by then does no harm
	defer cancel()
	stream, err := c.rpc.Pull(ctx, &sandboxv1.PullRequest{Image: image})
	if err != nil {
		return failed("pull an image", began, err)
	}
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failed("pull an image", began, err)
		}
		if line := kind.Text(r.GetProgress(), kind.MaxName); line != "" {
			progress(line)
		}
	}
}

// validID also keeps ids from being flags or paths.
var validID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`) })

// Create makes a container and returns its id.
func (c *Client) Create(ctx context.Context, r *sandboxv1.CreateRequest) (string, error) {
	began := time.Now()
	ctx, cancel := c.effect(ctx, createTimeout)
	defer cancel()
	out, err := c.rpc.Create(ctx, r)
	if err != nil {
		return "", failed("create a container", began, err)
	}
	if !validID().MatchString(out.GetId()) {
		return "", broke("%.80q is not a container's id", out.GetId())
	}
	return out.GetId(), nil
}

// Start starts a container.
func (c *Client) Start(ctx context.Context, id string) error {
	began := time.Now()
	ctx, cancel := c.effect(ctx, startTimeout)
	defer cancel()
	_, err := c.rpc.Start(ctx, &sandboxv1.StartRequest{Id: id})
	return failed("start container "+id, began, err)
}

// Endpoint returns where the supervisor of a started container listens. public allows public addresses.
func (c *Client) Endpoint(ctx context.Context, id string, public bool) (network, address string, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	r, err := c.rpc.Endpoint(ctx, &sandboxv1.EndpointRequest{Id: id})
	if err != nil {
		return "", "", failed("find the supervisor of container "+id, began, err)
	}
	if err := checkEndpoint(r.GetNetwork(), r.GetAddress(), public); err != nil {
		return "", "", broke("the address of container %s: %v", id, err)
	}
	return r.GetNetwork(), r.GetAddress(), nil
}

// Remove removes a container, by id or name. Unlike Create and Start it ends with ctx: a removal that was cut short is done again.
func (c *Client) Remove(ctx context.Context, id string) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	_, err := c.rpc.Remove(ctx, &sandboxv1.RemoveRequest{Id: id})
	return failed("remove container "+id, began, err)
}

// List returns the containers that an instance of Flynn made. One malformed entry makes the whole list an error: what is left out would be
// taken for gone.
func (c *Client) List(ctx context.Context, instance string) ([]Container, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	r, err := c.rpc.List(ctx, &sandboxv1.ListRequest{Instance: instance})
	if err != nil {
		return nil, failed("list containers", began, err)
	}
	if n := len(r.GetContainers()); n > maxContainers {
		return nil, broke("it lists %d containers, at most %d", n, maxContainers)
	}
	var out []Container
	for _, w := range r.GetContainers() {
		one, err := containerFromWire(w)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func containerFromWire(w *sandboxv1.Container) (Container, error) {
	out := Container{
		ID: w.GetId(), Name: kind.Text(w.GetName(), kind.MaxName), Image: kind.Text(w.GetImage(), kind.MaxDetail), Labels: w.GetLabels(),
	}
	if !validID().MatchString(out.ID) {
		return Container{}, broke("%.80q is not a container's id", out.ID)
	}
	if len(out.Labels) > maxLabels {
		return Container{}, broke("container %s has %d labels, at most %d", out.ID, len(out.Labels), maxLabels)
	}
	for name, value := range out.Labels {
		if bounds.ID(name) != nil || len(value) > maxLabel {
			return Container{}, broke("container %s has a malformed label %.80q", out.ID, name)
		}
	}
	switch w.GetState() {
	case "created", "running", "paused", "exited":
		out.State = w.GetState()
	}
	if t := w.GetCreated(); t.IsValid() {
		out.Created = t.AsTime()
	}
	return out, nil
}
