package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/flynnhost/flynn/host/admin/preflight"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// CheckConfiguration implements gateway.Configurations.
func (s Settings) CheckConfiguration(ctx context.Context, e gateway.ConfigurationEdit) (gateway.ConfigurationCheck, error) {
	out := gateway.ConfigurationCheck{
		Problems: []gateway.ConfigurationProblem{}, Warnings: []gateway.ConfigurationProblem{}, Effects: []gateway.ConfigurationEffect{},
		Restart: gateway.RestartNone,
	}
	before, err := config.Read(s.Editor.Path)
	if err != nil {
		return out, store.Conflict(fmt.Sprintf("%s: %v", s.Editor.Path, err))
	}
	if err := s.seen(e, before); err != nil {
		return out, err
	}
	text, err := s.edited(e, before)
	var wrong *gateway.NotApplied
	if errors.As(err, &wrong) {
		out.Problems = wrong.Problems
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Difference = difference(s.Editor.Path, before, text)
	next, err := config.LoadAs(s.Editor.Path, text, s.Editor.Getenv, s.Editor.Checks...)
	if err != nil {
		out.Problems = gateway.ProblemsOf(err, text)
		return out, nil
	}
	bad, weak := preflight.All(ctx, next, s.Launcher, s.Log)
	out.Problems, out.Warnings = gateway.Problems(bad, text), gateway.Problems(weak, text)
	current := s.Holder.Current()
	out.Restart = restartFor(current, next)
	out.Warnings = append(out.Warnings, moved(current, next)...)
	out.OK = len(out.Problems) == 0
	out.Effects = s.effects(current, next)
	return out, nil
}

// effects are the parts that a configuration changes.
func (s Settings) effects(old, next *config.Config) []gateway.ConfigurationEffect {
	out := []gateway.ConfigurationEffect{}
	for _, key := range config.RestartKeys(old, next) {
		out = append(out, gateway.ConfigurationEffect{Part: key, Change: "needs_restart"})
	}
	for _, section := range config.ChangedSections(old, next) {
		switch section {
		case "channels":
			out = append(out, instancesChanged(section, old.Channels, next.Channels, s.SameChannel, func(c config.Channel) bool { return c.Enabled })...)
		case "tools":
			out = append(out, instancesChanged(section, old.Tools, next.Tools, s.SameTools, func(c config.ToolProvider) bool { return c.Enabled })...)
		case "drivers":
			out = append(out, instancesChanged(section, old.UsedDrivers(), next.UsedDrivers(), config.Driver.Same, func(d config.Driver) bool { return d.Plugin != "" })...)
		default:
			out = append(out, gateway.ConfigurationEffect{Part: section, Change: "changes"})
		}
	}
	return out
}

func instancesChanged[T any](part string, old, next map[string]T, same func(a, b T) bool, enabled func(T) bool) (out []gateway.ConfigurationEffect) {
	names := slices.Sorted(maps.Keys(old))
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if _, ok := old[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		was, is := old[name], next[name]
		ran, runs := enabled(was), enabled(is)
		change := "changes"
		switch {
		case !ran && !runs, ran && runs && same(was, is):
			continue
		case !ran:
			change = "starts"
		case !runs:
			change = "stops"
		default:
			change = "restarts"
		}
		out = append(out, gateway.ConfigurationEffect{Part: part, Name: name, Change: change})
	}
	if len(out) == 0 {
		out = append(out, gateway.ConfigurationEffect{Part: part, Change: "changes"})
	}
	return out
}

// difference shows what changes, without secrets.
func difference(path string, before, after []byte) string {
	if string(before) == string(after) {
		return ""
	}
	was, _ := config.Hide(string(before))
	is, _ := config.Hide(string(after))
	if d := edit.Diff(filepath.Base(path), []byte(was), []byte(is)); d != "" {
		return d
	}
	return "@@ a value that looks like a secret changes, and is not shown @@\n"
}
