package suite

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/sandboxv1"
)

// sandboxChecks are about drivers of sandboxes. Whether what they make holds is not checked here: flynn sandbox selftest attacks it.
func sandboxChecks() []Check {
	return []Check{
		{Name: "capabilities", Run: engineDescribed, Next: "name the engine, of the networks none, bridge and host those that it has, and of the features those that every container has"},
		{Name: "container-life", Run: containerLife, Next: "make Start and Remove repeatable, answer Remove once the container is gone, and return an address from Endpoint"},
		{Name: "container-key", Run: containerKey, Next: "return the id of the container that has the key already, by its label flynn.key"},
		{Name: "container-instances", Run: containerInstances, Next: "list by the value of the label flynn.instance, and nothing else"},
		{Name: "container-orphans", Run: containerOrphans, Next: "keep nothing in memory: find containers by their labels, also those that another process made"},
		{Name: "container-refused", Run: containerRefused, Next: "answer what the capabilities do not have with FAILED_PRECONDITION, and make nothing"},
		{Name: "container-image", Run: containerImage, Next: "answer an image that the engine does not have with NOT_FOUND: Create if it is known by then, otherwise Start or Endpoint"},
		{Name: "image-pulled", Run: imagePulled, Next: "end Pull with an error for an image that does not exist, and when its context ends"},
		{Name: "container-slow", Run: containerSlow, Next: "end a call when its context does, and make a container only once for its key, also after a call that was given up"},
		{Name: "engine-gone-midway", Run: engineGoneMidway, Next: "answer Start, Endpoint and Remove with UNAVAILABLE while the engine does not answer, and keep nothing in memory"},
		{Name: "engine-gone", Run: engineGone, Next: "answer with UNAVAILABLE, at once, when the engine does not"},
	}
}

func (p *process) capabilities() *sandboxv1.CapabilitiesResponse {
	ctx, cancel := p.t.soon()
	defer cancel()
	has, err := p.sandbox.Capabilities(ctx, wire.Grease(&sandboxv1.CapabilitiesRequest{}))
	if status.Code(err) == codes.Unavailable && len(p.t.plugin.Container.Entrypoint) == 0 {
		p.t.Skip("no engine answers here: %v", err)
	}
	if err != nil {
		p.t.Fail("capabilities: %w", err)
	}
	return has
}

func engineDescribed(t *T) {
	has := t.ready().capabilities()
	if has.GetEngine() == "" {
		t.Fail("the engine has no name")
	}
	if len(has.GetNetworks()) == 0 {
		t.Fail("there are no networks: no container could be made")
	}
	for _, n := range has.GetNetworks() {
		if n != "none" && n != "bridge" && n != "host" {
			t.Fail("there is no network %.80q in the contract", n)
		}
	}
	for _, f := range has.GetFeatures() {
		if _, is := sandboxv1.Feature_name[int32(f)]; !is || f == sandboxv1.Feature_FEATURE_UNSPECIFIED {
			t.Fail("there is no feature %d in the contract", f)
		}
		if f == sandboxv1.Feature_FEATURE_SNAPSHOTS && !has.GetBinds() {
			t.Fail("it claims snapshots of the folders that containers mount, and containers mount no folders")
		}
	}
}

// container describes one that the driver can make here, of an instance of this check alone.
func (p *process) container(instance string) *sandboxv1.CreateRequest {
	made := p.t.plugin.Container
	if len(made.Entrypoint) == 0 {
		p.t.Skip("%s names no container that can be made here", p.t.plugin.Source)
	}
	key := rand.Text()
	return wire.Grease(&sandboxv1.CreateRequest{
		Key: key, Name: "flynn-conform-" + key[:12], Image: made.Image, Entrypoint: made.Entrypoint,
		Labels:  map[string]string{"flynn.instance": instance, "flynn.key": key, "odd": "a=b,\"c\" d"},
		Network: p.capabilities().GetNetworks()[0], MemoryBytes: 64 << 20, Cpus: 0.5, PidsLimit: 64, BestEffort: true, Identity: []byte("no secret\n"),
	})
}

// instance names an instance that no other check has.
func instance() string { return "conform-" + rand.Text()[:12] }

// make makes a container, which is removed with the check.
func (p *process) make(r *sandboxv1.CreateRequest) string {
	out, err := p.sandbox.Create(p.t.ctx, r)
	if err != nil {
		p.t.Fail("create: %w", err)
	}
	return out.GetId()
}

// list returns the containers of an instance by id.
func (p *process) list(instance string) map[string]*sandboxv1.Container {
	out, err := p.sandbox.List(p.t.ctx, wire.Grease(&sandboxv1.ListRequest{Instance: instance}))
	if err != nil {
		p.t.Fail("list: %w", err)
	}
	all := map[string]*sandboxv1.Container{}
	for _, c := range out.GetContainers() {
		if c.GetLabels()["flynn.instance"] != instance {
			p.t.Fail("the list of instance %s has container %s of instance %q", instance, c.GetId(), c.GetLabels()["flynn.instance"])
		}
		all[c.GetId()] = c
	}
	return all
}

func (p *process) remove(id string) {
	if _, err := p.sandbox.Remove(p.t.ctx, wire.Grease(&sandboxv1.RemoveRequest{Id: id})); err != nil {
		p.t.Fail("remove %s: %w", id, err)
	}
}

// sweep removes what a check has left; it does not fail.
func (p *process) sweep(instance string) {
	ctx := context.WithoutCancel(p.t.ctx)
	out, _ := p.sandbox.List(ctx, &sandboxv1.ListRequest{Instance: instance})
	for _, c := range out.GetContainers() {
		_, _ = p.sandbox.Remove(ctx, &sandboxv1.RemoveRequest{Id: c.GetId()})
	}
}

func containerLife(t *T) {
	p, of := t.ready(), instance()
	defer p.sweep(of)
	r := p.container(of)
	id := p.make(r)
	made := p.list(of)[id]
	if made == nil {
		t.Fail("container %s was created, and is not in the list", id)
	}
	if !maps.Equal(made.GetLabels(), r.GetLabels()) {
		for name, value := range r.GetLabels() {
			if made.GetLabels()[name] != value {
				t.Fail("label %q is %.80q, not %.80q", name, made.GetLabels()[name], value)
			}
		}
	}
	for range 2 {
		if _, err := p.sandbox.Start(t.ctx, &sandboxv1.StartRequest{Id: id}); err != nil {
			t.Fail("start: %w", err)
		}
	}
	if state := p.list(of)[id].GetState(); state != "running" {
		t.Fail("after Start its state is %q", state)
	}
	e, err := p.sandbox.Endpoint(t.ctx, &sandboxv1.EndpointRequest{Id: id})
	if err != nil || e.GetNetwork() != "unix" && e.GetNetwork() != "tcp" || e.GetAddress() == "" {
		t.Fail("endpoint: %q %.120q, %w", e.GetNetwork(), e.GetAddress(), err)
	}
	for range 2 {
		p.remove(id)
		if len(p.list(of)) != 0 {
			t.Fail("container %s is listed after Remove has answered", id)
		}
	}
	p.remove(r.GetName())
}

func containerKey(t *T) {
	p, of := t.ready(), instance()
	defer p.sweep(of)
	r := p.container(of)
	ids := make([]string, 4)
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			out, err := p.sandbox.Create(t.ctx, r)
			ids[i], errs[i] = out.GetId(), err
		})
	}
	all.Wait()
	for i, id := range ids {
		if errs[i] != nil {
			t.Fail("create with a key that others use at the same time: %w", errs[i])
		}
		if id != ids[0] {
			t.Fail("one key made %s and %s", ids[0], id)
		}
	}
	if n := len(p.list(of)); n != 1 {
		t.Fail("one key made %d containers", n)
	}
}

func containerInstances(t *T) {
	p, one, other := t.ready(), instance(), instance()
	defer p.sweep(one)
	defer p.sweep(other)
	mine, theirs := p.make(p.container(one)), p.make(p.container(other))
	if all := p.list(one); len(all) != 1 || all[mine] == nil {
		t.Fail("an instance with one container has %d", len(all))
	}
	p.remove(mine)
	if p.list(other)[theirs] == nil {
		t.Fail("the container of another instance is gone")
	}
	if n := len(p.list("")) + len(p.list(one+"*")); n != 0 {
		t.Fail("instances that do not exist have %d containers", n)
	}
}

func containerOrphans(t *T) {
	p, of := t.ready(), instance()
	id := p.make(p.container(of))
	if _, err := p.sandbox.Start(t.ctx, &sandboxv1.StartRequest{Id: id}); err != nil {
		t.Fail("start: %w", err)
	}
	p.Kill()
	next := t.ready()
	defer next.sweep(of)
	switch left := next.list(of)[id]; {
	case left == nil:
		t.Fail("the next process does not list container %s", id)
	case left.GetState() != "running":
		t.Fail("the container is %q: it did not outlast the process that made it", left.GetState())
	}
	if _, err := next.sandbox.Endpoint(t.ctx, &sandboxv1.EndpointRequest{Id: id}); err != nil {
		t.Fail("the next process does not know the way to the supervisor: %w", err)
	}
	next.remove(id)
	if len(next.list(of)) != 0 {
		t.Fail("the next process cannot remove it")
	}
}

func containerRefused(t *T) {
	p, of := t.ready(), instance()
	defer p.sweep(of)
	for _, spoil := range []func(*sandboxv1.CreateRequest){
		func(r *sandboxv1.CreateRequest) { r.Network = "of-a-later-version" },
		func(r *sandboxv1.CreateRequest) { r.Runtime = "no-such-runtime" },
		func(r *sandboxv1.CreateRequest) { r.Mounts = []*sandboxv1.Mount{{Kind: 99, Target: "/x"}} },
	} {
		r := p.container(of)
		spoil(r)
		_, err := p.sandbox.Create(t.ctx, r)
		if c := status.Code(err); c != codes.FailedPrecondition && c != codes.InvalidArgument {
			t.Fail("a container with network %q, runtime %q and mounts %v is answered with %v", r.GetNetwork(), r.GetRuntime(), r.GetMounts(), c)
		}
	}
	if n := len(p.list(of)); n != 0 {
		t.Fail("%d containers were made that were refused", n)
	}
}

func containerImage(t *T) {
	p, of := t.ready(), instance()
	defer p.sweep(of)
	r := p.container(of)
	r.Image = "flynn-conform.invalid/no/such:image"
	out, err := p.sandbox.Create(t.ctx, r)
	if err == nil {
		_, err = p.sandbox.Start(t.ctx, &sandboxv1.StartRequest{Id: out.GetId()})
	}
	if err == nil { // an engine that pulls when a container starts says so only to who waits for it
		_, err = p.sandbox.Endpoint(t.ctx, &sandboxv1.EndpointRequest{Id: out.GetId()})
	}
	if status.Code(err) != codes.NotFound {
		t.Fail("an image that does not exist: %v, want NOT_FOUND", err)
	}
}

// imagePulled fetches what does not exist. A pull that seems to succeed would make the host try again and fail without a reason.
func imagePulled(t *T) {
	p := t.ready()
	ctx, cancel := t.soon()
	defer cancel()
	p.capabilities() // skips without an engine
	stream, err := p.sandbox.Pull(ctx, wire.Grease(&sandboxv1.PullRequest{Image: "flynn-conform.invalid/no/such:image"}))
	for err == nil {
		_, err = stream.Recv()
	}
	switch {
	case status.Code(err) == codes.Unimplemented:
		t.Skip("the driver fetches no images")
	case errors.Is(err, io.EOF):
		t.Fail("an image that does not exist was pulled")
	case ctx.Err() != nil:
		t.Fail("a pull of an image that does not exist takes too long: %w", err)
	}
	gone, cancel := context.WithCancel(t.ctx)
	cancel()
	if stream, err = p.sandbox.Pull(gone, &sandboxv1.PullRequest{Image: "flynn-conform.invalid/no/such:image"}); err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		t.Fail("a pull that was given up goes on")
	}
	p.alive()
}

func engineGone(t *T) {
	p := t.withoutEngine()
	ctx, cancel := t.soon()
	defer cancel()
	if _, err := p.sandbox.Capabilities(ctx, &sandboxv1.CapabilitiesRequest{}); status.Code(err) != codes.Unavailable {
		t.Fail("capabilities without an engine: %v, want UNAVAILABLE", err)
	}
	if _, err := p.sandbox.List(ctx, &sandboxv1.ListRequest{Instance: instance()}); status.Code(err) != codes.Unavailable {
		t.Fail("list without an engine: %v, want UNAVAILABLE", err)
	}
	p.alive()
}
