package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

// restartWait is how long a restart may take: the end of work under way, and a start.
const restartWait = 3 * time.Minute

func restartCommand() *cli.Command {
	return &cli.Command{
		Name: "restart", Category: groupOperate,
		Usage: "restart the running flynn, for keys of flynn.toml that need it",
		Description: "It ends in order and starts again in the same process. Work under way continues after it. If it does not start with\n" +
			"flynn.toml it goes on with the configuration that was in force, and this command fails. To take up another version of flynn,\n" +
			"restart the service instead: flynn service restart.",
		Action: restart,
	}
}

func restart(ctx context.Context, cmd *cli.Command) error {
	path, getenv := configPath(ctx, cmd), getenvOf(ctx)
	g, err := config.LoadGateway(path, getenv)
	if err != nil {
		return err
	}
	at := &config.Config{Gateway: g}
	var before gateway.Status
	if err := client.Get(ctx, at, "/api/v1/status", &before); err != nil {
		return err
	}
	if err := client.Ask(ctx, at, http.MethodPost, "/api/v1/restart", nil, nil); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, restartWait)
	defer cancel()
	var now gateway.Status
	for now.Started.IsZero() || now.Started.Equal(before.Started) {
		select {
		case <-waiting.Done():
			return errors.Join(ctx.Err(), fmt.Errorf("flynn has not come back after %s: look at its log", restartWait))
		case <-time.After(50 * time.Millisecond):
		}
		now = gateway.Status{}
		_ = client.Get(waiting, at, "/api/v1/status", &now) // it is away for a moment
	}
	var c gateway.Configuration
	if err := client.Get(ctx, at, "/api/v1/configuration", &c); err != nil {
		return err
	}
	if c.Refused != "" {
		return fmt.Errorf("flynn goes on with the configuration that was in force: %s", c.Refused)
	}
	return newOutput(ctx, cmd).success(map[string]any{"generation": c.Generation}, "flynn has been restarted with %s", c.Path)
}
