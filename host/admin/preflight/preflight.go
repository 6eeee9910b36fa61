// Package preflight finds what keeps a part of Flynn from working although the configuration is valid: plugins that are not installed,
// policies whose module does not load or fails its own cases, an engine that does not answer. A host starts all the same and logs these;
// flynn config check reports them before.
//
// Start with All, which flynn config check prints, and with Check for its parts. The package starts no plugin and changes nothing.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/admin/lint"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

const (
	// policiesWall bounds the loading of all policies with their cases.
	policiesWall = 5 * time.Minute
	// engineWall bounds the wait for the engine's answer.
	engineWall = 10 * time.Second
)

// Check returns what would not work after a start with c, and warnings about what does not work now and may work by then. policies are
// those of c, and launcher is the command that runs plugins in a jail.
func Check(ctx context.Context, c *config.Config, launcher []string, policies []policy.Source) (wrong, warnings config.Errors) {
	wrong = append(Plugins(c), Policies(ctx, c, policies)...)
	unable, warnings := Engine(ctx, c, launcher)
	return append(wrong, unable...), warnings
}

// All returns everything that flynn config check reports about a configuration that can be loaded. launcher is the command that runs plugins
// in a jail, and log says what is built.
func All(ctx context.Context, c *config.Config, launcher []string, log *slog.Logger) (wrong, warnings config.Errors) {
	sources := configured.Sources(c, log)
	wrong, weak := Check(ctx, c, launcher, sources)
	wrong = append(wrong, instances.CheckAllSettings(c)...)
	warnings = slices.Concat(c.Renamed, access.Warnings(c), lint.All(c, sources), weak)
	warnings = slices.DeleteFunc(warnings, func(w config.Error) bool { // it is an error already
		return slices.ContainsFunc(wrong, func(e config.Error) bool { return e.Key == w.Key })
	})
	slices.SortStableFunc(wrong, func(a, b config.Error) int { return a.Line - b.Line })
	return wrong, warnings
}

// Plugins returns the enabled instances whose plugins are not installed.
func Plugins(c *config.Config) (wrong config.Errors) {
	look := installed(c)
	check := func(table, instance, name string, enabled bool) {
		if !enabled || name == "" {
			return
		}
		if err := look(name); err != nil {
			problem, hint := err.Error(), ""
			if before, after, found := strings.Cut(problem, " is not installed: "); found {
				problem, hint = before+" is not installed", after
			}
			wrong = append(wrong, finding(c, problem, hint, table, instance, "plugin"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		check("channels", name, c.Channels[name].Plugin, c.Channels[name].Enabled)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		check("tools", name, c.Tools[name].Plugin, c.Tools[name].Enabled)
	}
	for name, d := range c.UsedDrivers() {
		check("drivers", name, d.Plugin, true)
	}
	return wrong
}

// installed returns a function that checks whether a plugin is installed or comes with Flynn.
func installed(c *config.Config) func(name string) error {
	others := slices.Collect(maps.Keys(c.Plugins.DevPaths))
	store, err := plugin.OpenStore(c.Plugins.Dir)
	return func(name string) error {
		dir, developed := c.Plugins.DevPaths[name]
		switch {
		case developed:
			_, err := plugin.ReadManifest(dir)
			return err
		case err != nil:
			return err
		}
		return store.Installed(name, others...)
	}
}

// Policies loads the policies and runs their cases, as a start does, and returns those that would fail closed.
func Policies(ctx context.Context, c *config.Config, sources []policy.Source) (wrong config.Errors) {
	if len(sources) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, policiesWall)
	defer cancel()
	cache := filepath.Join(c.Store.Dir, "wasm-cache")
	if _, err := os.Stat(cache); err != nil {
		cache = "" // checking must not create a folder
	}
	load := func(cache string) (*policy.Engine, error) {
		return policy.New(ctx, policy.Config{
			Sources: sources, CacheDir: cache, Log: slog.New(slog.DiscardHandler),
			Gate: policy.GateFunc(func(ctx context.Context, m policy.Candidate) error {
				return author.Prove(ctx, m.Source.Path, m.Wasm, cache)
			}),
		})
	}
	engine, err := load(cache)
	if err != nil && cache != "" {
		engine, err = load("") // the cache belongs to another user
	}
	if err != nil {
		return config.Errors{finding(c, err.Error(), "", "policies")}
	}
	defer engine.Close()
	for i, s := range engine.Status() {
		if s.Error == "" {
			continue
		}
		key := config.PolicyKey(i, "path")
		if sources[i].Installed != nil {
			key = config.PolicyKey(i, "policy")
		}
		wrong = append(wrong, finding(c, "the policy would fail closed: "+s.Error, "", key...))
	}
	return wrong
}

// Engine asks the engine of [sandbox] for a sign of life, and whether it can make all sandboxes. A lack of the driver of a plugin is wrong and
// not a warning, since no other engine will be found in its place. launcher is the command that runs plugins in a jail.
func Engine(ctx context.Context, c *config.Config, launcher []string) (wrong, warnings config.Errors) {
	if !c.Sandbox.Enabled {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, engineWall)
	defer cancel()
	engine, err := fleet.Open(ctx, c, launcher, slog.New(slog.DiscardHandler))
	if err == nil {
		defer engine.Close()
		err = able(ctx, engine, specs.New(c))
	}
	if errors.Is(err, driver.ErrUnable) && c.Sandbox.Driver() != "" {
		return config.Errors{finding(c, machine.Reason(err), "", "sandbox", "engine")}, nil
	}
	if err == nil {
		err = answers(ctx, engine, c)
	}
	if err == nil {
		return nil, nil
	}
	becomes := "calls of sandboxed tools are refused until it answers"
	if c.Sandbox.OnUnavailable == "host" {
		becomes = "calls of sandboxed tools run on the host until it answers"
	}
	return nil, config.Errors{finding(c, fmt.Sprintf("%s; %s", machine.Reason(err), becomes), "", "sandbox", "enabled")}
}

// Answers returns why the engine of [sandbox] makes no sandboxes now, or nil: it does not answer, cannot hold the limits there, or is a driver
// that failed its self-test. One that was not tested yet is tested by the host.
func Answers(ctx context.Context, c *config.Config, launcher []string) error {
	ctx, cancel := context.WithTimeout(ctx, engineWall)
	defer cancel()
	engine, err := fleet.Open(ctx, c, launcher, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return errors.Join(answers(ctx, engine, c), engine.Close())
}

func answers(ctx context.Context, e fleet.Engine, c *config.Config) error {
	if err := e.Ping(ctx); err != nil {
		return err
	}
	has, err := e.Capabilities(ctx)
	if err == nil {
		err = driver.Without(has.Lacks, c.Sandbox.Limits == config.BestEffort)
	}
	if err == nil {
		err = fleet.Proved(ctx, e, specs.New(c))
	}
	if errors.Is(err, drivers.ErrUntested) {
		return nil
	}
	return err
}

// able returns why the engine cannot make one of the sandboxes, or nil.
func able(ctx context.Context, e fleet.Engine, all *specs.Set) error {
	has, err := e.Capabilities(ctx)
	if err != nil {
		return err
	}
	for _, name := range all.Names() {
		s, _ := all.Named(name)
		if err := fleet.Supports(e, has, s); err != nil {
			return err
		}
	}
	return nil
}

func finding(c *config.Config, problem, hint string, key ...string) config.Error {
	return config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: problem, Hint: hint}
}
