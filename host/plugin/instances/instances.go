// Package instances applies the configuration to plugin processes: which instances run, what each of them gets, and whether its plugin
// accepts its settings.
//
// Start with Set, which each start and reload call, and CheckSettings. The package starts no process itself (package plugin does), and uses
// none (package channel/plugged does for channels, package provider for tools, package fleet/drivers for drivers of sandboxes).
package instances

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
)

// Kind makes the instances of one kind of plugin; T is the table that the configuration has for each of them.
type Kind[T any] interface {
	// Enabled reports whether the table asks for a process.
	Enabled(c T) bool
	// Same reports whether a process for table a can also serve table b.
	Same(a, b T) bool
	// Instance returns the instance for a table, and its handler.
	Instance(name string, c T) (plugin.Instance, plugin.Handler, error)
	// Ended is called when the process of an instance has been stopped.
	Ended(name string)
}

// Plugins runs the processes; *plugin.Host implements it.
type Plugins interface {
	Add(i plugin.Instance, h plugin.Handler) error
	Remove(name string) error
	Restart(name string) error
	Status() []plugin.Status
}

// Set stops the instances that were removed or changed, and starts the new ones. An unchanged instance that is in quarantine is started
// again, because its plugin may have been fixed before the reload.
func Set[T any](plugins Plugins, log *slog.Logger, k Kind[T], before, next map[string]T) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if was := before[name]; k.Enabled(was) && !k.Same(was, next[name]) {
			if err := plugins.Remove(name); err != nil {
				log.Error("stop plugin instance", "instance", name, "error", err)
			}
			k.Ended(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		c := next[name]
		if k.Same(before[name], c) {
			release(plugins, log, name)
			continue
		}
		if !k.Enabled(c) {
			continue
		}
		i, h, err := k.Instance(name, c)
		if err == nil {
			err = plugins.Add(i, h)
		}
		if err != nil {
			log.Error("start plugin instance", "instance", name, "error", err)
		}
	}
}

// release starts an instance that is in quarantine.
func release(plugins Plugins, log *slog.Logger, name string) {
	for _, s := range plugins.Status() {
		if s.Name != name || s.State != plugin.Quarantined {
			continue
		}
		log.Info("restarting quarantined plugin instance", "instance", name)
		if err := plugins.Restart(name); err != nil {
			log.Error("restart plugin instance", "instance", name, "error", err)
		}
	}
}

// Names returns the names of all instances of a configuration.
func Names(c *config.Config) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(c.Channels)), maps.Keys(c.Tools))
	return slices.AppendSeq(names, maps.Keys(c.Drivers))
}

// Reveal reveals the secrets of an instance for its process.
func Reveal(secrets map[string]config.Secret) map[string]string {
	open := make(map[string]string, len(secrets))
	for key, s := range secrets {
		open[key] = s.Reveal()
	}
	return open
}

// Containment is the jail that a configuration asks for, with launcher as the command that runs jail.Enter. The launcher tries to read the
// configuration, the database and the token, and must not succeed.
func Containment(c *config.Config, launcher []string) plugin.Containment {
	if c.Plugins.Containment == "off" {
		launcher = nil
	}
	return plugin.Containment{
		Launcher: launcher, Required: c.Plugins.Containment == "required",
		Secret: []string{c.Path, c.Gateway.TokenFile, c.Store.Dir},
	}
}

// CriticalPatience is how long critical channels may take to become ready at the start: long enough for a slow platform, short enough to
// fail a start that can never succeed.
const CriticalPatience = time.Minute

// Critical waits for the critical instances; *plugin.Host implements it.
type Critical interface {
	// WaitCritical returns when all of them are ready, or with an error when one is quarantined.
	WaitCritical(ctx context.Context) error
	// CriticalDown is an error that names those that are not ready; nil if all are.
	CriticalDown() error
}

// AwaitCritical returns an error if a critical channel does not become ready at the start. If one fails later, the host keeps running and
// reports that it is not ready.
func AwaitCritical(ctx context.Context, plugins Critical, patience time.Duration) error {
	waiting, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not ready within %v", patience))
	defer cancel()
	err := plugins.WaitCritical(waiting)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if waiting.Err() != nil {
		err = errors.Join(context.Cause(waiting), plugins.CriticalDown())
	}
	return fmt.Errorf("start: %w: fix it, or set critical = false in its [channels] table", err)
}
