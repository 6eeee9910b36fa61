package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/resume"
)

// listenTimeout bounds the time from when the endpoint of a supervisor is known until it listens there.
const listenTimeout = 20 * time.Second

// Dial connects to the supervisor of a started container, which listens, and returns its endpoint too. The connection is made again whenever
// it is cut, for as long as the container runs. The error is frame.ErrTaken if another process has the container by now.
func (o *Ownership) Dial(ctx context.Context, d driver.Driver, instance, id string) (driver.Stream, driver.Endpoint, error) {
	dialed, ok := d.(driver.Dialed)
	if !ok || o.identity == nil {
		return nil, driver.Endpoint{}, errors.New("the supervisor does not listen")
	}
	at, err := dialed.Endpoint(ctx, id)
	if err != nil {
		return nil, at, err
	}
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	stream, err := resume.Dial(ctx, resume.Host{
		Dial: func(ctx context.Context) (net.Conn, error) { return dial(ctx, dialed, id) },
		Gone: func(ctx context.Context) bool { return gone(ctx, d, instance, id) }, Identity: o.identity, Epoch: o.epoch,
	})
	if err != nil {
		return nil, at, fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return stream, at, nil
}

// dial asks for the endpoint each time, because a driver may have moved it.
func dial(ctx context.Context, d driver.Dialed, id string) (net.Conn, error) {
	if own, is := d.(driver.Dialer); is {
		return own.DialSupervisor(ctx, id)
	}
	at, err := d.Endpoint(ctx, id)
	if err != nil {
		return nil, err
	}
	if at.Network != "tcp" && at.Network != "unix" {
		return nil, fmt.Errorf("the driver names an endpoint on network %.20q, which is neither tcp nor unix", at.Network)
	}
	return new(net.Dialer).DialContext(ctx, at.Network, at.Address)
}

// gone reports whether a container does not run any more. While the engine does not answer, nothing is known.
func gone(ctx context.Context, d driver.Driver, instance, id string) bool {
	owned, err := d.List(ctx, instance)
	if err != nil {
		return false
	}
	at := slices.IndexFunc(owned, func(o driver.Owned) bool { return o.ID == id })
	return at < 0 || owned[at].State == "exited" || owned[at].State == "dead"
}
