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
	Log *slog.Logger // gets the output of the plugin
}

// Run makes every check for the plugin's kinds. An error means that the checks could not start.
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
	values   store.Values // nil if the plugin asks for no host service
	log      *slog.Logger
}

// plugin describes the plugin for the suite, from plugin.toml and conform.toml.
func (k *kit) plugin() suite.Plugin {
	return suite.Plugin{
		Kinds: plugin.AllKinds().Wire(k.manifest.Kinds),
		Name:  k.manifest.Name, Version: k.manifest.Version, Settings: k.file.Settings, Secrets: k.file.Secrets, Optional: k.file.Optional,
		Named: k.manifest.Config.Secrets, Calls: k.file.Calls, Container: k.file.Container, Gone: k.file.Gone, Redelivers: k.file.Fake.Redelivers,
		Together:    !channelkind.OptionsOf(k.manifest.Options).Apart(k.file.Settings),
		StopTimeout: time.Duration(k.manifest.Run.StopTimeout), Source: FileName, Bench: k.bench,
	}
}

// checks are the checks of plugin.toml, which is not part of the suite.
func (k *kit) checks() []suite.Check {
	return []suite.Check{
		{Name: "schema", Run: k.schema, Next: "make config.schema of plugin.toml accept the settings in conform.toml: otherwise the host would not start the plugin"},
		{Name: "senders", Kind: pluginv1.Kind_KIND_CHANNEL, Run: k.senders,
			Next: "write under [channel] and in Describe what the platform proves about a sender: proved, claimed or none"},
		{Name: "apart", Kind: pluginv1.Kind_KIND_CHANNEL, Run: k.apart, Next: "name settings of the plugin in channel.together_when"},
	}
}

// schema checks the settings of conform.toml against the schema that plugin.toml names.
func (k *kit) schema(t *suite.T) {
	s, err := plugin.ReadSettings(k.dir)
	if err != nil {
		t.Fail("%w", err)
	}
	settings, _ := t.Settings()
	wrong, err := s.Check(settings)
	for _, w := range wrong {
		err = errors.Join(err, fmt.Errorf("config.schema refuses settings that work: %q: %s", w.Key, w.Problem))
	}
	if err != nil {
		t.Fail("%w", err)
	}
}

// senders checks that plugin.toml says what the platform proves about a sender. The check "describe" covers that the process says the same.
func (k *kit) senders(t *suite.T) {
	declared := channelkind.OptionsOf(k.manifest.Options)
	if declared.Senders == "" {
		t.Fail("channel.senders is missing in plugin.toml: the host treats every id as a claim, and every sender as a guest at most")
	}
	k.when(t, "claimed_when", declared.ClaimedWhen)
}

// apart checks the settings with which the channel does not send apart.
func (k *kit) apart(t *suite.T) {
	k.when(t, "together_when", channelkind.OptionsOf(k.manifest.Options).TogetherWhen)
}

// when checks that the keys of a table of [channel] are settings of the plugin.
func (k *kit) when(t *suite.T, table string, given map[string]any) {
	s, err := plugin.ReadSettings(k.dir)
	if err != nil {
		t.Fail("%w", err)
	}
	wrong, err := s.Check(given)
	for _, w := range wrong {
		if key := strings.Join(w.Key, "."); given[key] != nil {
			t.Fail("channel.%s.%s is not a setting of the plugin: %s", table, key, w.Problem)
		}
	}
	if err != nil {
		t.Fail("%w", err)
	}
}
