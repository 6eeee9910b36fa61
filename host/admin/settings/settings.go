// Package settings shows and edits the flynn.toml of the host that runs on it, for the gateway.
//
// Start with Settings. edit.go makes edits, of keys or of the whole text, by package config/edit, as the command line does; check.go says
// what one would do. secrets.go stores secrets. Every method reads the file anew: people edit it by hand as well. The package decides nothing
// about what is accepted, and returns no secret.
package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
)

// Holder has the configuration in force; *config.Holder implements it.
type Holder interface {
	Path() string
	Current() *config.Config
	Reload(ctx context.Context) error
	Refused() (digest string, err error)
}

// Config configures Settings.
type Config struct {
	Holder Holder
	Getenv func(string) string
	// Checks are those of flynn serve.
	Checks []config.Check
	Log    *slog.Logger
	// SameChannel and SameTools report whether a process for one table can also serve the other.
	SameChannel func(a, b config.Channel) bool
	SameTools   func(a, b config.ToolProvider) bool
}

// Settings edits one file. Its methods are safe for concurrent use.
type Settings struct {
	Config
	editing sync.Mutex // one edit at a time
}

var (
	_ gateway.Configurations = (*Settings)(nil)
	_ gateway.Secrets        = (*Settings)(nil)
)

// New returns the settings of a host.
func New(c Config) *Settings { return &Settings{Config: c} }

// Reload has the host take up the file.
func (s *Settings) Reload(ctx context.Context) (uint64, error) {
	err := s.Holder.Reload(ctx)
	return s.Holder.Current().Generation, err
}

// Configuration implements gateway.Configurations.
func (s *Settings) Configuration(context.Context) (gateway.Configuration, error) {
	path, current := s.Holder.Path(), s.Holder.Current()
	text, err := config.Read(path)
	if err != nil {
		return gateway.Configuration{}, fmt.Errorf("%s: %w", path, err)
	}
	shown, hidden := config.Hide(string(text))
	c := gateway.Configuration{
		Path: path, Generation: current.Generation, Version: version(current, text), State: gateway.ConfigurationInForce, Text: shown,
		Problems: []gateway.ConfigurationProblem{}, Warnings: problems(current.Renamed, hidden),
	}
	sum := config.DigestOf(text)
	if sum != current.Digest {
		c.State, c.Warnings = gateway.ConfigurationPending, []gateway.ConfigurationProblem{}
		if tried, refused := s.Holder.Refused(); refused != nil && tried == sum {
			c.State, c.Refused = gateway.ConfigurationRefused, masked(refused.Error(), hidden)
		}
		_, err := config.LoadAs(path, text, s.Getenv, s.Checks...)
		c.Problems = problemsOf(err, hidden)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		c.Path = absolute
	}
	if err := edit.Writable(path); err != nil {
		c.ReadOnly = err.Error()
	}
	former, err := config.HistoryOf(current).List()
	for _, f := range former {
		if !f.Is(sum) && !f.Refused {
			c.Undo = f.ID
			break
		}
	}
	return c, err
}

// version names a text of the file, and the generation in force when it was read.
func version(current *config.Config, text []byte) string {
	return fmt.Sprintf("%d-%.16s", current.Generation, config.DigestOf(text))
}

// ConfigurationKeys implements gateway.Configurations.
func (s *Settings) ConfigurationKeys(_ context.Context, section string) ([]gateway.ConfigurationKey, error) {
	text, err := config.Read(s.Holder.Path())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Holder.Path(), err)
	}
	out := []gateway.ConfigurationKey{}
	for _, k := range config.Keys(s.Holder.Path(), text) {
		if section != "" && k.Path[0] != section {
			continue
		}
		out = append(out, gateway.ConfigurationKey{
			Name: config.KeyString(k.Path...), Key: k.Path, Type: k.Type, Form: k.Form, Default: k.Default, Enum: k.OneOf, Names: k.Names,
			Low: k.Low, High: k.High, Meaning: k.Meaning, Example: k.Example, Reference: k.Reference, Plugin: k.Plugin,
			Set: k.Set, Value: k.Value, Hidden: k.Hidden, Line: k.Line,
		})
	}
	return out, nil
}

// FormerConfigurations implements gateway.Configurations.
func (s *Settings) FormerConfigurations(context.Context) ([]gateway.FormerConfiguration, error) {
	all, err := config.HistoryOf(s.Holder.Current()).List()
	if err != nil {
		return nil, err
	}
	text, err := config.Read(s.Holder.Path())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Holder.Path(), err)
	}
	out, found := []gateway.FormerConfiguration{}, false
	for _, f := range all {
		now := !found && f.Is(config.DigestOf(text))
		found = found || now
		out = append(out, gateway.FormerConfiguration{ID: f.ID, Since: f.Since, Bytes: f.Bytes, Now: now, Refused: f.Refused})
	}
	return out, nil
}

// problemsOf returns the single errors of a configuration.
func problemsOf(err error, hidden []string) []gateway.ConfigurationProblem {
	var all config.Errors
	switch {
	case err == nil:
		return []gateway.ConfigurationProblem{}
	case errors.As(err, &all):
		return problems(all, hidden)
	}
	return []gateway.ConfigurationProblem{{Text: masked(err.Error(), hidden)}}
}

// maxProblems bounds the problems in an answer.
const maxProblems = 200

func problems(all []config.Error, hidden []string) []gateway.ConfigurationProblem {
	out := []gateway.ConfigurationProblem{}
	for _, e := range all[:min(len(all), maxProblems)] {
		out = append(out, gateway.ConfigurationProblem{Line: e.Line, Key: e.Key, Text: masked(e.Problem, hidden), Next: masked(e.Hint, hidden)})
	}
	return out
}

// secretName is the name of a secret in the folder of secrets, or "" for another path.
func (s *Settings) secretName(c *config.Config, value any) string {
	path, _ := value.(string)
	if path == "" {
		return ""
	}
	folder, err := filepath.Abs(filepath.Dir(s.Holder.Path()))
	if err != nil {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return nameIn(c, path)
}
