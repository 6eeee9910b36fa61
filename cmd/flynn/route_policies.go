package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/route"
)

// openRoutePolicies loads the route policies of a configuration. The caller calls release when it is done with them.
func openRoutePolicies(ctx context.Context, cfg *config.Config) (policies route.Policies, release func(), err error) {
	sources := slices.DeleteFunc(configured.Sources(cfg, slog.Default()), func(s policy.Source) bool {
		return !slices.Contains(s.Kinds, policy.KindRoute)
	})
	if len(sources) == 0 {
		return nil, func() {}, nil
	}
	// No log: a policy that cannot be loaded fails each decision, and its answer says why.
	engine, err := policy.New(ctx, policy.Config{Sources: sources, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, fmt.Errorf("load the route policies: %w", err)
	}
	set := engine.Pin()
	return set, func() {
		set.Release()
		_ = engine.Close()
	}, nil
}
