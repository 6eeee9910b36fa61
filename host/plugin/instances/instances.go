// Package instances keeps plugin processes in line with the configuration: which instances run, what each of them gets, and whether
// its settings are what its plugin takes.
//
// Start with Set, which a start and each reload call, and CheckSettings. The package starts no process itself (package plugin does), and
// uses none (package plugged does for channels, package provider for tools).
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
	// Same reports whether a process of table a serves table b as well.
	Same(a, b T) bool
	// Instance returns what the process gets, and its user.
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

// Set stops the instances that are gone or have changed, and starts the new ones. An instance that stays and is in quarantine is
// started again: the reload may be there because its plugin was mended.
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
		log.Info("quarantined plugin instance gets another chance", "instance", name)
		if err := plugins.Restart(name); err != nil {
			log.Error("restart plugin instance", "instance", name, "error", err)
		}
	}
}

// Names returns the names of all instances of a configuration.
func Names(c *config.Config) []string {
	return slices.AppendSeq(slices.Collect(maps.Keys(c.Channels)), maps.Keys(c.Tools))
}

// Reveal opens the secrets of an instance for its process, which alone gets them.
func Reveal(secrets map[string]config.Secret) map[string]string {
	open := make(map[string]string, len(secrets))
	for key, s := range secrets {
		open[key] = s.Reveal()
	}
	return open
}

// Containment says how the processes of a configuration are held in by launcher, the command that runs jail.Enter. The probe tries to
// read the configuration, the database and the token.
func Containment(c *config.Config, launcher []string) plugin.Containment {
	if c.Plugins.Containment == "off" {
		launcher = nil
	}
	return plugin.Containment{
		Launcher: launcher, Required: c.Plugins.Containment == "required",
		Secret: []string{c.Path, c.Gateway.TokenFile, c.Store.Dir},
	}
}

// CriticalPatience is how long critical channels may take to become ready at the start. A platform may be slow; a host that will never
// serve has to say so at its start.
const CriticalPatience = time.Minute

// Critical knows the instances without which the host does not serve; *plugin.Host implements it.
type Critical interface {
	// WaitCritical returns when all of them are ready, or with an error when one is given up.
	WaitCritical(ctx context.Context) error
	// CriticalDown names those that are not ready; nil when all are.
	CriticalDown() error
}

// AwaitCritical returns an error when a critical channel does not become ready at the start. When one of them fails later, the host
// stays up and says that it is not ready, and supervision goes on.
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
	return fmt.Errorf("start: %w: mend it, or set critical = false in its [channels] table", err)
}
