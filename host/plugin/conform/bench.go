package conform

import (
	"context"
	"os"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
)

// bench starts the processes of one check, as the host starts a plugin, and the fake platform of conform.toml.
type bench struct {
	kit      *kit
	check    string
	stateDir string
	offer    *offer    // nil until a process may call the host
	platform *platform // nil until the check needs one
}

var _ suite.Bench = (*bench)(nil)

// bench makes the bench of one check.
func (k *kit) bench(check string) (suite.Bench, error) {
	dir, err := os.MkdirTemp("", "fc")
	return &bench{kit: k, check: check, stateDir: dir}, err
}

// Start implements suite.Bench.
func (b *bench) Start(ctx context.Context, bare bool) (suite.Process, error) {
	services, err := b.services()
	if err != nil {
		return nil, err
	}
	p, err := plugin.StartProbe(ctx, plugin.ProbeConfig{Dir: b.kit.dir, StateDir: b.stateDir, Bare: bare, Log: b.kit.log, Services: services})
	if err != nil {
		return nil, err // not p: a nil *plugin.Probe in a suite.Process is not nil
	}
	return p, nil
}

// Platform implements suite.Bench.
func (b *bench) Platform(ctx context.Context, report func(fake.Report)) (fake.Ready, fake.Platform, error) {
	if len(b.kit.file.Fake.Command) == 0 {
		return fake.Ready{}, nil, nil
	}
	p, err := startPlatform(ctx, b.kit.dir, b.kit.file.Fake.Command, report)
	if err != nil {
		return fake.Ready{}, nil, err
	}
	b.platform = p
	return p.ready, p, nil
}

// Close implements suite.Bench.
func (b *bench) Close() {
	if b.offer != nil {
		b.offer.close()
	}
	_ = os.RemoveAll(b.stateDir)
}
