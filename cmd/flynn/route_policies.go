package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
)

// openRoutePolicies loads the route policies of a configuration. The caller calls release when it has asked them.
func openRoutePolicies(ctx context.Context, cfg *config.Config) (policies route.Policies, release func(), err error) {
	sources := routeSources(cfg)
	if len(sources) == 0 {
		return nil, func() {}, nil
	}
	// No log: a policy that cannot be loaded decides by failing, and its answer tells why.
	engine, err := policy.New(ctx, policy.Config{Sources: sources, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, fmt.Errorf("load the route policies: %w", err)
	}
	set := engine.Pin()
	return set, func() {
		set.Release()
		_ = engine.Close() // nothing is left to lose
	}, nil
}

// routeSources are the policies that route, as their package wants them.
func routeSources(cfg *config.Config) []policy.Source {
	var sources []policy.Source
	for _, p := range cfg.Policies {
		if !slices.Contains(p.Kinds, policy.KindRoute) {
			continue
		}
		sources = append(sources, policy.Source{
			Name: p.Name, Path: p.Path, Kinds: p.Kinds, Data: p.Data,
			OnErrorAgent: p.OnErrorAgent,
			Isolation:    p.Isolation,
			Limits: policy.Limits{
				Fuel:      p.Limits.Fuel,
				Memory:    int64(p.Limits.Memory),
				Depth:     p.Limits.Depth,
				HostCalls: p.Limits.HostCalls,
				Wall:      time.Duration(p.Limits.Wall),
			},
		})
	}
	return sources
}
