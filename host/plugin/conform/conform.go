package conform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/plugin"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Config names the plugin to check, and how to check it.
type Config struct {
	suite.Config
	Dir string       // with plugin.toml
	Log *slog.Logger // gets what the plugin writes
}

// Run makes every check that fits the plugin's kinds. An error means that there was nothing to check.
func Run(ctx context.Context, c Config) (suite.Report, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return suite.Report{}, err
	}
	m, err := plugin.ReadManifest(dir)
	if err != nil {
		return suite.Report{}, err
	}
	f, err := readFile(dir)
	if err != nil {
		return suite.Report{}, err
	}
	clean, err := f.Fake.build(ctx, dir)
	if err != nil {
		return suite.Report{}, err
	}
	defer clean()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &kit{dir: dir, manifest: m, file: f, log: c.Log}
	forget, err := k.openStore(ctx)
	if err != nil {
		return suite.Report{}, err
	}
	defer forget()
	c.More = k.checks()
	return suite.Run(ctx, k.plugin(), c.Config)
}

// kit is one run over one plugin.
type kit struct {
	dir      string
	manifest plugin.Manifest
	file     file
	values   store.Values // nil when the plugin asks for nothing
	log      *slog.Logger
}

// plugin is what plugin.toml and conform.toml say, as the suite takes it.
func (k *kit) plugin() suite.Plugin {
	return suite.Plugin{
		Kinds: plugin.AllKinds().Wire(k.manifest.Kinds),
		Name:  k.manifest.Name, Version: k.manifest.Version, Settings: k.file.Settings, Secrets: k.file.Secrets, Optional: k.file.Optional,
		Named: k.manifest.Config.Secrets, Calls: k.file.Calls, Redelivers: k.file.Fake.Redelivers,
		StopTimeout: time.Duration(k.manifest.Run.StopTimeout), Source: FileName, Bench: k.bench,
	}
}

// checks are those of plugin.toml, which the suite does not know.
func (k *kit) checks() []suite.Check {
	return []suite.Check{
		{Name: "schema", Run: k.schema, Next: "let config.schema of plugin.toml take the settings that work: with another one the host would not start the plugin"},
		{Name: "senders", Kind: pluginv1.Kind_KIND_CHANNEL, Run: k.senders,
			Next: "write under [channel] and in Describe what the platform proves about a sender: proved, claimed or none"},
	}
}

// schema holds the settings that work against the schema that plugin.toml names.
func (k *kit) schema(t *suite.T) {
	s, err := plugin.ReadSettings(k.dir)
	if err != nil {
		t.Fail("%w", err)
	}
	settings, _ := t.Settings()
	wrong, err := s.Check(settings)
	for _, w := range wrong {
		err = errors.Join(err, fmt.Errorf("config.schema does not take settings that work: %q: %s", w.Key, w.Problem))
	}
	if err != nil {
		t.Fail("%w", err)
	}
}

// senders checks that the plugin says what its platform proves about a sender. That the process says the same as plugin.toml is part of
// "describe".
func (k *kit) senders(t *suite.T) {
	declared := channelkind.OptionsOf(k.manifest.Options)
	if declared.Senders == "" {
		t.Fail("channel.senders is missing in plugin.toml: the host takes every id for a mere claim, and every sender for a guest at most")
	}
	s, err := plugin.ReadSettings(k.dir)
	if err != nil {
		t.Fail("%w", err)
	}
	wrong, err := s.Check(declared.ClaimedWhen)
	for _, w := range wrong {
		if key := strings.Join(w.Key, "."); declared.ClaimedWhen[key] != nil {
			t.Fail("channel.claimed_when.%s is not a setting that the plugin takes: %s", key, w.Problem)
		}
	}
	if err != nil {
		t.Fail("%w", err)
	}
}
