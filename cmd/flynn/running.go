package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

// runningOn returns the flynn that runs on a configuration, and whether there is one.
func runningOn(ctx context.Context, path string, getenv func(string) string) (*runningHost, bool, error) {
	g, err := config.LoadGateway(path, getenv)
	if err != nil {
		return nil, false, err
	}
	h := &runningHost{at: &config.Config{Gateway: g}}
	var status gateway.Status
	err = client.Get(ctx, h.at, "/api/v1/status", &status)
	if errors.Is(err, client.ErrNotRunning) {
		return h, false, nil
	}
	return h, err == nil, err
}

// runningHost is a flynn that runs; it is asked over its gateway.
type runningHost struct {
	at    *config.Config
	hosts []string // that agreed on the last reload
}

var _ setup.Host = (*runningHost)(nil)

// Access implements setup.Host.
func (h *runningHost) Access(ctx context.Context) (list []gateway.AccessEntry, err error) {
	return list, client.Get(ctx, h.at, "/api/v1/people", &list)
}

// Decide implements setup.Host.
func (h *runningHost) Decide(ctx context.Context, code string, approve bool) error {
	var e gateway.AccessEntry
	return client.Ask(ctx, h.at, http.MethodPost, "/api/v1/people/decision", map[string]any{"code": code, "approve": approve}, &e)
}

// Reload implements setup.Host.
func (h *runningHost) Reload(ctx context.Context) (uint64, error) {
	var r gateway.Reloaded
	err := client.Ask(ctx, h.at, http.MethodPost, "/api/v1/configuration/reload", nil, &r)
	if err == nil && r.Refused != "" {
		err = errors.New(r.Refused)
	}
	h.hosts = r.Hosts
	return r.Generation, err
}

// serveAt is flynn serve on a configuration, with its warnings alone.
func serveAt(ctx context.Context, cmd *cli.Command, path string) error {
	ctx, reloads, done := hangups(ctx)
	defer done()
	log := slog.New(slog.NewTextHandler(cmd.Root().ErrWriter, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return host.Serve(ctx, host.Config{
		Path: path, Getenv: getenvOf(ctx), Log: log, Version: buildinfo.Version(), Hangup: reloads, PluginLauncher: pluginLauncher(), Web: web(),
	}, func(h *host.Host) {
		fmt.Fprintln(cmd.Root().Writer, welcome(h.URL(), h.TokenFile(), isTerminal(cmd.Root().Writer)))
	})
}

var _ setup.Hosts = hosts{}

// hosts runs a flynn in this process where none runs.
type hosts struct{ getenv func(string) string }

// Running implements setup.Hosts.
func (h hosts) Running(ctx context.Context, path string) (setup.Host, bool, error) {
	return runningOn(ctx, path, h.getenv)
}

// Begin implements setup.Hosts.
func (h hosts) Begin(ctx context.Context, path string) (setup.Host, func(), error) {
	running, ok, err := runningOn(ctx, path, h.getenv)
	if err != nil || ok {
		return running, func() {}, err
	}
	ctx, stop := context.WithCancel(ctx)
	ready := make(chan struct{})
	own, err := host.New(ctx, host.Config{
		Path: path, Getenv: h.getenv, Log: slog.New(slog.DiscardHandler), Version: buildinfo.Version(), PluginLauncher: pluginLauncher(), Web: web(),
		Ready: func() { close(ready) },
	})
	if err != nil {
		stop()
		return nil, nil, err
	}
	serving, ctx := errgroup.WithContext(ctx)
	serving.Go(func() error { return cmp.Or(own.Run(ctx), context.Canceled) })
	end := func() {
		stop()
		_ = serving.Wait()
	}
	select {
	case <-ready:
		return running, end, nil
	case <-ctx.Done():
		stop()
		return nil, nil, fmt.Errorf("start flynn: %w", serving.Wait())
	}
}
