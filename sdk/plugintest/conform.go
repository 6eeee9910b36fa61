package plugintest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugin"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
	"github.com/flynnhost/flynn/sdk/sandbox"
	"github.com/flynnhost/flynn/sdk/tool"
)

// Conformance describes the plugin that Conform checks.
type Conformance struct {
	// Channel, Tools and Sandbox return a plugin that has not been configured. All but one of them are nil, unless the plugin has several kinds.
	Channel func() channel.Channel
	Tools   func() tool.Provider
	Sandbox func() sandbox.Driver
	// Settings, Secrets and Permissions are values with which it works. Timeout, by default 5 s, is how long a check waits for what should
	// happen.
	Config
	// Platform starts its fake platform, if it has one: the function that the platform's program passes to platform.Main.
	Platform func(t platform.TB, report func(fake.Report)) platform.Fake
	// Redelivers is set if the platform delivers again what was not acknowledged.
	Redelivers bool
	Optional   []string     // secrets that it does not need
	Calls      []suite.Call // successful calls of its tools
	// Container is one that its driver can make here, and Gone are settings with which no engine answers it.
	Container suite.Container
	Gone      map[string]any
	Only      []string // names of the checks to run; all by default
}

func (c Conformance) parts() (list []plugin.Part) {
	if c.Channel != nil {
		list = append(list, channel.Part(c.Channel()))
	}
	if c.Tools != nil {
		list = append(list, tool.Part(c.Tools()))
	}
	if c.Sandbox != nil {
		list = append(list, sandbox.Part(c.Sandbox()))
	}
	return list
}

// ofProcesses are the checks of what a plugin in memory does not have: a process, its environment and its standard input.
func ofProcesses() []string { return []string{"handshake", "environment", "controller", "lifeline"} }

// Conform checks a plugin in the memory of its test against the contract, each check as a subtest. It is the suite of `flynn plugin
// conform`, which also starts the plugin as a process and reads its plugin.toml.
func Conform(t *testing.T, c Conformance) {
	t.Helper()
	for _, r := range report(t, c).Results {
		t.Run(r.Check, func(t *testing.T) {
			switch r.Outcome {
			case suite.Fail:
				t.Errorf("%s; next: %s", r.Detail, r.Next)
			case suite.Skip:
				t.Skip(r.Detail)
			}
		})
	}
}

// report runs the checks that a plugin in memory can pass.
func report(t *testing.T, c Conformance) suite.Report {
	t.Helper()
	p := suite.Plugin{
		Settings: c.Settings, Secrets: c.Secrets, Optional: c.Optional, Calls: c.Calls, Container: c.Container, Gone: c.Gone, Redelivers: c.Redelivers, Source: "the test",
		Named: slices.Collect(maps.Keys(c.Secrets)),
		Bench: func(string) (suite.Bench, error) {
			b := &bench{t: t, c: c}
			b.c.Config = withDefaults(t, c.Config)
			return b, nil
		},
	}
	for _, part := range c.parts() {
		p.Kinds = append(p.Kinds, part.Kind)
	}
	r, err := suite.Run(t.Context(), p, suite.Config{Only: c.Only, Patience: c.Timeout, Without: ofProcesses()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bench starts the plugin in memory.
type bench struct {
	t *testing.T
	c Conformance
}

var _ suite.Bench = (*bench)(nil)

// Start implements suite.Bench.
func (b *bench) Start(context.Context, bool) (suite.Process, error) {
	p, err := serve(b.t, b.c.Config, b.c.parts()...)
	if err != nil {
		return nil, err
	}
	return inMemory{p}, nil
}

// Platform implements suite.Bench.
func (b *bench) Platform(_ context.Context, report func(fake.Report)) (fake.Ready, fake.Platform, error) {
	if b.c.Platform == nil {
		return fake.Ready{}, nil, nil
	}
	ready, p := platform.Start(b.c.Platform, report, b.t.Fatalf)
	b.c.onServe = func(url string) {
		if err := p.(fake.Caller).Webhook(fake.Webhook{URL: url}); err != nil {
			b.t.Logf("the fake platform does not take the webhook %s: %v", url, err)
		}
	}
	return ready, p, nil
}

// Close implements suite.Bench.
func (b *bench) Close() {}

// inMemory is a plugin that is served in memory, in the form that the suite requires.
type inMemory struct{ process }

var _ suite.Process = inMemory{}

func (p inMemory) Conn() grpc.ClientConnInterface  { return p.conn }
func (p inMemory) Admit() (endpoint, token string) { return p.endpoint, p.token }
func (p inMemory) StateDir() string                { return p.config.StateDir }
func (p inMemory) HangUp()                         { p.end() }
func (p inMemory) Kill()                           { p.Close() }

// Exited implements suite.Process.
func (p inMemory) Exited(within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.exited:
		return true
	case <-late.C:
		return false
	}
}

// Ended implements suite.Process.
func (p inMemory) Ended() error {
	select {
	case <-p.exited:
		return *p.failure
	default:
		return nil
	}
}

// Close implements suite.Process.
func (p inMemory) Close() {
	p.end()
	<-p.exited
}
