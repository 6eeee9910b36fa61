package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
)

// openRoutePolicies loads the policies of a configuration as flynn serve does. The caller calls release when it has asked them.
func openRoutePolicies(ctx context.Context, cfg *config.Config) (policies route.Policies, release func(), err error) {
	engine, err := policy.New(ctx, policy.Config{Sources: host.PolicySources(cfg), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, fmt.Errorf("load policies: %w", err)
	}
	for _, s := range engine.Status() {
		if s.Error != "" {
			return nil, nil, errors.Join(fmt.Errorf("load policy %s: %s", s.Name, s.Error), engine.Close())
		}
	}
	set := engine.Pin()
	return set, func() {
		set.Release()
		engine.Close()
	}, nil
}
