package suite

import (
	"context"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/sandboxv1"
)

// containerSlow gives calls up in the middle, as a host does whose deadline has passed, and asks for the same again. A call that goes on
// regardless makes a container that nobody knows.
func containerSlow(t *T) {
	p, of := t.ready(), instance()
	defer p.sweep(of)
	began := time.Now()
	p.remove(p.make(p.container(of)))
	usual := time.Since(began)
	for _, part := range []time.Duration{100, 10, 4, 2} { // of the usual time
		r := p.container(of)
		ctx, cancel := context.WithTimeout(t.ctx, usual/part)
		_, err := p.sandbox.Create(ctx, r)
		cancel()
		if c := status.Code(err); c != codes.OK && c != codes.DeadlineExceeded && c != codes.Canceled {
			t.Fail("create, given up after %v: %w", usual/part, err)
		}
		id := p.again("create", func(ctx context.Context) (string, error) {
			out, err := p.sandbox.Create(ctx, r)
			return out.GetId(), err
		})
		p.impatient(usual/part, id)
		if all := p.list(of); len(all) != 1 || all[id] == nil {
			t.Fail("create was given up after %v and repeated with its key: there are %d containers", usual/part, len(all))
		}
		ctx, cancel = context.WithTimeout(t.ctx, usual/part)
		_, _ = p.sandbox.List(ctx, &sandboxv1.ListRequest{Instance: of})
		_, _ = p.sandbox.Remove(ctx, &sandboxv1.RemoveRequest{Id: id})
		cancel()
		p.remove(id)
		if n := len(p.list(of)); n != 0 {
			t.Fail("remove was given up after %v and repeated: there are %d containers", usual/part, n)
		}
	}
	select { // for calls that go on
	case <-time.After(2 * usual):
	case <-t.ctx.Done():
	}
	if n := len(p.list(of)); n != 0 {
		t.Fail("%d containers appeared after they had been given up and removed", n)
	}
}

// impatient gives up the other calls for a container, and starts it.
func (p *process) impatient(after time.Duration, id string) {
	ctx, cancel := context.WithTimeout(p.t.ctx, min(after, 5*time.Millisecond))
	_, _ = p.sandbox.Start(ctx, &sandboxv1.StartRequest{Id: id})
	_, _ = p.sandbox.Endpoint(ctx, &sandboxv1.EndpointRequest{Id: id})
	cancel()
	p.again("start", func(ctx context.Context) (string, error) {
		_, err := p.sandbox.Start(ctx, &sandboxv1.StartRequest{Id: id})
		return "", err
	})
	p.again("endpoint", func(ctx context.Context) (string, error) {
		e, err := p.sandbox.Endpoint(ctx, &sandboxv1.EndpointRequest{Id: id})
		return e.GetAddress(), err
	})
}

// again makes a call that was given up before.
func (p *process) again(name string, call func(ctx context.Context) (string, error)) string {
	ctx, cancel := p.t.soon()
	defer cancel()
	out, err := call(ctx)
	if err != nil {
		p.t.Fail("%s, after one that was given up: %w", name, err)
	}
	return out
}

// withoutEngine returns a process whose engine does not answer.
func (t *T) withoutEngine() *process {
	if len(t.plugin.Gone) == 0 {
		t.Skip("%s names no settings with which no engine answers", t.plugin.Source)
	}
	p := t.unconfigured()
	settings, secrets := t.Settings()
	maps.Copy(settings, t.plugin.Gone)
	if _, err := p.plugin.Configure(t.ctx, p.configure(settings, secrets)); err != nil {
		t.Fail("configure: %w", err)
	}
	return p
}

// engineGoneMidway loses the engine after a container was created. Nothing may be taken for done then, and all goes on once it is back.
func engineGoneMidway(t *T) {
	p, of := t.ready(), instance()
	id := p.make(p.container(of))
	p.Kill()
	lost := t.withoutEngine()
	for name, call := range map[string]func(context.Context) error{
		"start": func(ctx context.Context) error {
			_, err := lost.sandbox.Start(ctx, &sandboxv1.StartRequest{Id: id})
			return err
		},
		"endpoint": func(ctx context.Context) error { // it may be known without the engine
			_, err := lost.sandbox.Endpoint(ctx, &sandboxv1.EndpointRequest{Id: id})
			if err == nil {
				err = status.Error(codes.Unavailable, "")
			}
			return err
		},
		"remove": func(ctx context.Context) error {
			_, err := lost.sandbox.Remove(ctx, &sandboxv1.RemoveRequest{Id: id})
			return err
		},
	} {
		ctx, cancel := t.soon()
		err := call(ctx)
		cancel()
		if status.Code(err) != codes.Unavailable {
			t.Fail("%s without an engine: %v, want UNAVAILABLE", name, err)
		}
	}
	lost.Kill()
	back := t.ready()
	defer back.sweep(of)
	if back.list(of)[id] == nil {
		t.Fail("the engine is back, and container %s is not listed", id)
	}
	if _, err := back.sandbox.Start(t.ctx, &sandboxv1.StartRequest{Id: id}); err != nil {
		t.Fail("start, now that the engine is back: %w", err)
	}
	back.remove(id)
	if n := len(back.list(of)); n != 0 {
		t.Fail("%d containers are left", n)
	}
}
