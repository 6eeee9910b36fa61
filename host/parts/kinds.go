package parts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/upkeep"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/pack"
)

// plugins are the plugins of a configuration.
type plugins struct {
	config *config.Config
	log    *slog.Logger
}

// installed returns the active versions that people have installed. It implements kind.
func (p plugins) installed() (map[string]*body, error) {
	locked, err := p.locked()
	out := map[string]*body{}
	for name, l := range locked {
		b := &body{Version: l.Version, Source: l.Source, Platforms: l.Platforms, Files: l.Files}
		if l.Platform != "" {
			b.Platforms = []string{l.Platform}
		}
		out[name] = b
	}
	return out, err
}

func (p plugins) locked() (map[string]plugin.Locked, error) {
	s, err := plugin.OpenStore(p.config.Plugins.Dir)
	if err != nil {
		return nil, err
	}
	list, err := s.List()
	out := map[string]plugin.Locked{}
	for _, l := range list {
		if l.FirstParty == "" {
			out[l.Name] = l
		}
	}
	return out, err
}

// each implements kind.
func (p plugins) each(name string, visit func(file string, program bool, content io.Reader) error) error {
	s, err := plugin.OpenStore(p.config.Plugins.Dir)
	if err != nil {
		return err
	}
	locked, err := p.locked()
	if err != nil {
		return err
	}
	return s.Each(locked[name], func(file string, program bool, f *os.File) error { return visit(file, program, f) })
}

// take implements kind.
func (p plugins) take(_ context.Context, name, source string, b *body, open func(file string) (io.Reader, error)) error {
	if len(b.Platforms) > 0 && !slices.Contains(b.Platforms, "any") && !slices.Contains(b.Platforms, plugin.Platform()) {
		return fmt.Errorf("it has programs for %s only, and this is %s", strings.Join(b.Platforms, ", "), plugin.Platform())
	}
	s, err := plugin.OpenStore(p.config.Plugins.Dir)
	if err != nil {
		return err
	}
	u := upkeep.Upkeep{Store: s, Config: p.config, Running: true, Log: p.log}
	return u.Take(name, b.Version, source, plugin.Files{Digests: b.Files, Programs: b.Programs, Open: open})
}

// remove implements kind.
func (p plugins) remove(name string) error {
	s, err := plugin.OpenStore(p.config.Plugins.Dir)
	if err != nil {
		return err
	}
	return s.Remove(name)
}

// policies are the installed policies of a configuration.
type policies struct{ config *config.Config }

// installed implements kind.
func (p policies) installed() (map[string]*body, error) {
	locked, err := p.locked()
	out := map[string]*body{}
	for name, l := range locked {
		out[name] = &body{Version: l.Version, Source: l.From, Files: l.Files}
	}
	return out, err
}

func (p policies) locked() (map[string]pack.Locked, error) {
	list, err := configured.Store(p.config).List()
	out := map[string]pack.Locked{}
	for _, l := range list {
		if l.FirstParty == "" {
			out[l.Name] = l
		}
	}
	return out, err
}

// each implements kind.
func (p policies) each(name string, visit func(file string, program bool, content io.Reader) error) error {
	locked, err := p.locked()
	if err != nil {
		return err
	}
	files, err := configured.Store(p.config).Contents(locked[name])
	for file, content := range files {
		if err == nil {
			err = visit(file, false, bytes.NewReader(content))
		}
	}
	return err
}

// take implements kind.
func (p policies) take(ctx context.Context, name, source string, b *body, open func(file string) (io.Reader, error)) error {
	return configured.Store(p.config).Take(ctx, name, source, b.Files, open)
}

// remove implements kind.
func (p policies) remove(name string) error { return configured.Store(p.config).Remove(name) }
