package docker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Address returns the engine's address.
func (d *Driver) Address() string { return d.address }

// explain turns an engine's failure into a machine.ErrUnavailable that names the engine and the next step.
func (d *Driver) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case d.weakness.Trusting:
		return err
	case errors.Is(err, os.ErrPermission):
		return d.unavailable("this user may not use the engine at %s: add the user to the engine's group, or set engine in [sandbox]", d.address)
	case client.IsErrConnectionFailed(err):
		return d.unavailable("no engine answers at %s: %s, or set engine in [sandbox]%s", d.address, d.startIt(), d.cause(err))
	case errors.Is(err, errSilent):
		return d.unavailable("the engine at %s has stopped answering while it was to %s: restart it, or set engine in [sandbox]", d.address, doing)
	case errors.Is(err, context.DeadlineExceeded):
		return d.unavailable("the engine at %s is too slow to %s: restart it, or set engine in [sandbox]", d.address, doing)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s on engine %s: %w", doing, d.address, err)
	}
	return d.refused(doing, err)
}

func (d *Driver) unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{machine.ErrUnavailable}, args...)...)
}

// maxCause bounds the part of the engine's message that an error quotes.
const maxCause = 400

// refused explains a request that a working engine refuses.
func (d *Driver) refused(doing string, err error) error {
	words := err.Error()
	switch {
	case strings.Contains(words, "no space left on device"), strings.Contains(words, "disk quota exceeded"):
		return d.unavailable("the disk of the engine at %s is full, it cannot %s: make room, for example with: docker system prune", d.address, doing)
	case strings.Contains(words, "containerd.sock"), strings.Contains(words, "transport is closing"), strings.Contains(words, "connection closed: unavailable"):
		return d.unavailable("the engine at %s has lost its containerd, it cannot %s: restart it", d.address, doing)
	case strings.Contains(words, "invalid runtime name"):
		return d.unavailable("the engine at %s has no such runtime: %s: register it there, or change runtime in [sandbox]", d.address, words)
	}
	next := "see the engine's log, or restart it"
	if cerrdefs.IsInvalidArgument(err) {
		next = "change [sandbox]"
	}
	return d.unavailable("the engine at %s cannot %s: %s: %s", d.address, doing, words[:min(len(words), maxCause)], next)
}

// startIt returns the advice for an engine that is not running.
func (d *Driver) startIt() string {
	switch d.engine.Scheme {
	case "tcp":
		return "start Docker on " + d.engine.Host
	case "ssh":
		return "try: ssh " + d.engine.Host + " docker version"
	}
	return "start Docker"
}

// cause returns the part of a connection error that says more than that there is no connection, such as a TLS error.
func (d *Driver) cause(err error) string {
	if strings.HasPrefix(err.Error(), "Cannot connect to the Docker daemon at ") { // the client's message for just that
		return ""
	}
	var request *url.Error // its message contains a placeholder address
	if errors.As(err, &request) {
		err = request.Err
	}
	return ": " + err.Error()
}
