// Package settings shows and edits the flynn.toml of the host that runs on it, for the gateway.
//
// Start with Settings. edit.go makes edits, of keys or of the whole text, by the edit.Editor that all rooms share; check.go says what one would do.
// secrets.go stores secrets. Every method reads the file anew: people edit it by hand as well. The package decides nothing about what is
// accepted, and returns no secret.
package settings

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/redact"
)

// Settings shows and edits one file. Its methods are safe for concurrent use.
type Settings struct {
	Holder *config.Holder
	Editor *edit.Editor
	Log    *slog.Logger
	// SameChannel and SameTools report whether a process for one table can also serve the other.
	SameChannel func(a, b config.Channel) bool
	Launcher    []string // the command that runs plugins in a jail
	SameTools   func(a, b config.ToolProvider) bool
	// FailedRestart is why the last restart was not one with the file; nil if it was.
	FailedRestart error
}

var (
	_ gateway.Configurations = Settings{}
	_ gateway.Secrets        = Settings{}
)

// Configuration implements gateway.Configurations.
func (s Settings) Configuration(context.Context) (gateway.Configuration, error) {
	path, current := s.Holder.Path(), s.Holder.Current()
	text, err := config.Read(path)
	if err != nil {
		return gateway.Configuration{}, fmt.Errorf("%s: %w", path, err)
	}
	shown, hidden := config.Hide(string(text))
	sum := config.DigestOf(text)
	c := gateway.Configuration{
		Path: path, Generation: current.Generation, Version: sum, State: gateway.ConfigurationInForce, Text: shown,
		Problems: []gateway.ConfigurationProblem{}, Warnings: gateway.Problems(current.Renamed, text),
	}
	if sum != current.Digest {
		c.State, c.Warnings = gateway.ConfigurationPending, []gateway.ConfigurationProblem{}
		if tried, refused := s.Holder.Refused(); refused != nil && tried == sum {
			c.State, c.Refused = gateway.ConfigurationRefused, redact.Words(hidden...).Replace(refused.Error())
		}
		_, err := config.LoadAs(path, text, s.Editor.Getenv, s.Editor.Checks...)
		c.Problems = gateway.ProblemsOf(err, text)
	}
	if s.FailedRestart != nil && c.State == gateway.ConfigurationInForce {
		c.Warnings = append(c.Warnings, failedRestart(s.FailedRestart))
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

// ConfigurationKeys implements gateway.Configurations.
func (s Settings) ConfigurationKeys(_ context.Context, section string) ([]gateway.ConfigurationKey, error) {
	text, err := config.Read(s.Holder.Path())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Holder.Path(), err)
	}
	out, waiting := []gateway.ConfigurationKey{}, map[string]config.Waiting{}
	for _, w := range s.Holder.Current().Waiting {
		waiting[w.Key] = w
	}
	for _, k := range config.Keys(s.Holder.Path(), text) {
		if section != "" && k.Path[0] != section {
			continue
		}
		shown := gateway.ConfigurationKey{
			Name: config.KeyString(k.Path...), Key: k.Path, Type: k.Type, Form: k.Form, Default: k.Default, Enum: k.OneOf, Names: k.Names,
			Low: k.Low, High: k.High, Meaning: k.Meaning, Example: k.Example, Reference: k.Reference, Plugin: k.Plugin,
			Set: k.Set, Value: k.Value, Hidden: k.Hidden, Line: k.Line, New: k.New,
		}
		if w, ok := waiting[shown.Name]; ok {
			shown.Runs = &w.Runs
		}
		out = append(out, shown)
	}
	return out, nil
}

// FormerConfigurations implements gateway.Configurations.
func (s Settings) FormerConfigurations(context.Context) ([]gateway.FormerConfiguration, error) {
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

// secretName is the name of a secret in the folder of secrets, or "" for another path.
func (s Settings) secretName(c *config.Config, value any) string {
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
