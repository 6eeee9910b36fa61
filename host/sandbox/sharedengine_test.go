package sandbox_test

import (
	"context"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// sharedEngine is a container engine that several hosts reach over a network.
type sharedEngine struct {
	*sandboxtest.Private
	way docker.Config
}

// onSharedEngines runs a test with an engine for each way to it.
func onSharedEngines(t *testing.T, do func(t *testing.T, e sharedEngine)) {
	for _, c := range remoteEngines {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, way := c.open(t)
			do(t, sharedEngine{e, way})
		})
	}
}

// order is an instance on the engine.
func (e sharedEngine) order(t testing.TB) hostOrder {
	_, order := restartable(t)
	order.Engine = e.way
	return order
}

// adjustTo changes a configuration to the engine of an order.
func (o hostOrder) adjustTo(t testing.TB, c *sandbox.Config) {
	d, err := docker.New(o.Engine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	c.Driver = docker.NewListening(d)
	if c.Supervisor, err = program.FindSupervisorFor(c.Driver, c.Log); err != nil {
		t.Fatal(err)
	}
}

// left are the containers of an instance that are there.
func (e sharedEngine) left(t testing.TB, instance string) (ids []string) {
	t.Helper()
	owned, err := e.Driver.List(context.Background(), instance)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owned {
		ids = append(ids, o.ID+" "+o.State)
	}
	return ids
}

func TestSharedEngineOfAnotherHost(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { ofAnotherHost(t, e) })
}

func TestSharedEngineOfASuspendedHost(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { ofASuspendedHost(t, e) })
}

func TestSharedEngineHandedOver(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { handedOver(t, e) })
}

func TestSharedEngineThatNobodyTakes(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { thatNobodyTakes(t, e) })
}
