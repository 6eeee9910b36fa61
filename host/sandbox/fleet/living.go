package fleet

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Live returns the sandboxes with a live container, the oldest first.
func (f *Fleet) Live() []sandbox.Living {
	if m := f.sandboxes(); m != nil {
		return m.Live()
	}
	return nil
}

// LiveSession returns the sandbox whose live container has that id: machine.ErrNotFound if there is none, or no more.
func (f *Fleet) LiveSession(id string) (*sandbox.Session, error) {
	if m := f.sandboxes(); m != nil {
		if s, ok := m.LiveSession(id); ok {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: no live sandbox %.64q", machine.ErrNotFound, id)
}

// Containers returns all containers of this instance on the engine.
func (f *Fleet) Containers(ctx context.Context) ([]driver.Owned, error) {
	m := f.sandboxes()
	if m == nil {
		return nil, f.AsOfNow("")
	}
	return m.Containers(ctx)
}

// Usage returns what a container uses now.
func (f *Fleet) Usage(ctx context.Context, id string) (driver.Usage, error) {
	if m := f.sandboxes(); m != nil {
		return m.Usage(ctx, id)
	}
	return driver.Usage{}, errLooking
}

// Address returns the address of the engine that [sandbox] names.
func (f *Fleet) Address() string { return f.setup.Load().sandbox.Engine }

// Specs returns the configured sandboxes by name; "" is [sandbox].
func (f *Fleet) Specs() map[string]spec.Spec {
	all, in := map[string]spec.Spec{}, f.setup.Load().specs
	for _, name := range in.Names() {
		if s, known := in.Named(name); known {
			all[name] = s.WithDefaults()
		}
	}
	return all
}
