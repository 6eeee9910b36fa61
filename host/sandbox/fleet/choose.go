package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/engine"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/native"
	"github.com/flynnhost/flynn/host/sandbox/program"
)

// Engine makes the sandboxes of a configuration: a container engine, or this machine itself.
type Engine interface {
	driver.Driver
	driver.Locator
	Close() error
}

// Engines returns the engines that [sandbox] names, the preferred first. It contacts none. dir is the folder of the store, and plugged returns
// the driver of a [drivers] table.
func Engines(c config.Sandbox, dir string, plugged func(name string) (Engine, error), log *slog.Logger) ([]Engine, error) {
	if name := c.Driver(); name != "" {
		e, err := plugged(name)
		return []Engine{e}, err
	}
	own := func() (Engine, error) {
		return native.New(native.Config{
			Folder: FoldersOf(dir).Native, Images: FoldersOf(dir).images, Supervisor: func() (string, error) { return program.FindSupervisor(log) },
		})
	}
	switch c.Engine {
	case engine.Native:
		e, err := own()
		return []Engine{e}, err
	case "", engine.Auto:
	default:
		e, err := docker.New(docker.Config{Engine: c.Engine, CA: c.EngineCA, Cert: c.EngineCert, Key: c.EngineKey, Folder: FoldersOf(dir).engine})
		return []Engine{e}, err
	}
	var found []Engine
	addresses := engine.Usual(os.Getenv("HOME"))
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		addresses = []string{host}
	}
	for _, address := range addresses {
		e, err := docker.New(docker.Config{Engine: address, Folder: FoldersOf(dir).engine})
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	e, err := own()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if err == nil {
		found = append(found, e)
	}
	return found, nil
}

// shareable returns the engines as a host uses them that shares its store with others: a container engine on another machine may be that of the
// others, too.
func shareable(engines []Engine) []Engine {
	all := slices.Clone(engines)
	for i, e := range all {
		if d, is := e.(*docker.Driver); is && !d.Binds() {
			all[i] = docker.NewListening(d)
		}
	}
	return all
}

// Answering returns the first engine that answers, and closes the others. If none does, it returns one that says why.
func Answering(ctx context.Context, engines []Engine) Engine {
	var all []error
	for i, e := range engines {
		ping, cancel := context.WithTimeout(ctx, checkEvery)
		err := e.Ping(ping)
		cancel()
		if err == nil {
			for _, other := range append(engines[:i:i], engines[i+1:]...) {
				_ = other.Close()
			}
			return e
		}
		all = append(all, err)
	}
	return silent{Engine: engines[0], others: engines[1:], err: why(all)}
}

// why is the reason why no engine answers.
func why(all []error) error {
	if len(all) == 1 {
		return all[0]
	}
	text := "no engine answers, and this machine cannot make sandboxes itself:"
	for _, err := range all {
		text += " " + machine.Reason(err) + ";"
	}
	return fmt.Errorf("%w: %s", machine.ErrUnavailable, text[:len(text)-1])
}

// Open returns the engine of a configuration that answers now, as Answering does. launcher is the command that runs plugins in a jail.
func Open(ctx context.Context, c *config.Config, launcher []string, log *slog.Logger) (Engine, error) {
	engines, err := Engines(c.Sandbox, c.Store.Dir, func(string) (Engine, error) { return drivers.Start(c, launcher, log) }, log)
	if err != nil {
		return nil, err
	}
	return Answering(ctx, engines), nil
}

// silent stands for engines of which none answers.
type silent struct {
	Engine // the preferred one
	others []Engine
	err    error
}

// Ping implements driver.Driver.
func (s silent) Ping(context.Context) error { return s.err }

// Capabilities implements driver.Driver.
func (s silent) Capabilities(context.Context) (driver.Capabilities, error) {
	return driver.Capabilities{}, s.err
}

// Create implements driver.Driver.
func (s silent) Create(context.Context, driver.Container) (string, error) { return "", s.err }

// List implements driver.Driver.
func (s silent) List(context.Context, string) ([]driver.Owned, error) { return nil, s.err }

// Close closes all of them.
func (s silent) Close() error {
	err := s.Engine.Close()
	for _, e := range s.others {
		err = errors.Join(err, e.Close())
	}
	return err
}
