package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/preflight"
	"github.com/flynnhost/flynn/host/config"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Category: groupOperate,
		Usage: "check and show the configuration",
		Commands: []*cli.Command{
			{
				Name:  "check",
				Usage: "print every error of the configuration, and everything that would not work when flynn starts with it",
				Description: "Reads the configuration as flynn serve would, environment and secret files included, looks for the plugins that it names, checks\n" +
					"their settings against their schemas, loads the policies and runs their test cases, and asks whether the container engine answers.",
				Action: checkConfig,
			},
			{
				Name:        "show",
				Usage:       "print the configuration with all defaults, without secrets",
				Description: "The output is a configuration file itself, with the same meaning in any folder.",
				Action:      showConfig,
			},
		},
	}
}

// loadConfig loads the configuration that the command works on with the checks of flynn serve, except for secrets: those may be set in the
// environment of the host only.
func loadConfig(ctx context.Context, cmd *cli.Command) (*config.Config, error) {
	return config.LoadBeside(configPath(ctx, cmd), getenvOf(ctx), host.Checks()...)
}

// loadWhole is like loadConfig for commands that also need the secrets.
func loadWhole(ctx context.Context, cmd *cli.Command) (*config.Config, error) {
	return config.Load(configPath(ctx, cmd), getenvOf(ctx), host.Checks()...)
}

// buildLog says on standard error what is being built, which may take minutes.
func buildLog(cmd *cli.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(cmd.Root().ErrWriter, nil))
}

func checkConfig(ctx context.Context, cmd *cli.Command) error {
	out := newOutput(ctx, cmd)
	cfg, err := loadWhole(ctx, cmd)
	warnings := []config.Error{}
	if err == nil {
		var wrong, weak config.Errors
		if wrong, weak = preflight.All(ctx, cfg, pluginLauncher(), buildLog(cmd)); len(wrong) > 0 {
			err = wrong
		}
		warnings = append(warnings, weak...)
	}
	if out.asJSON {
		return errors.Join(out.json(newReport(configPath(ctx, cmd), err, warnings)), asReported(err))
	}
	for _, w := range warnings {
		out.warn("%v", w)
	}
	if err == nil {
		out.done("%s is in order: %s. Start it with: flynn serve", configPath(ctx, cmd), contents(cfg))
	}
	return err
}

// contents returns the counts of a configuration's parts in words.
func contents(c *config.Config) string {
	var counts []string
	for _, part := range []struct {
		one, many string
		n         int
	}{
		{"agent", "agents", len(c.Agents)}, {"channel", "channels", len(c.Channels)}, {"model tier", "model tiers", len(c.Models)},
		{"policy", "policies", len(c.Policies)},
	} {
		switch {
		case part.n == 1:
			counts = append(counts, "1 "+part.one)
		case part.n > 1:
			counts = append(counts, fmt.Sprintf("%d %s", part.n, part.many))
		}
	}
	return strings.Join(counts, ", ")
}

// report is the answer of config check in JSON.
type report struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Errors   []config.Error `json:"errors"`
	Warnings []config.Error `json:"warnings"`
}

func newReport(path string, err error, warnings []config.Error) report {
	r := report{File: path, OK: err == nil, Errors: []config.Error{}, Warnings: warnings}
	var bad config.Errors
	if errors.As(err, &bad) {
		r.Errors = bad
	}
	return r
}

func showConfig(ctx context.Context, cmd *cli.Command) error {
	cfg, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if !out.asJSON {
		return cfg.Show(out.out)
	}
	var text bytes.Buffer
	if err := cfg.Show(&text); err != nil {
		return err
	}
	keys := map[string]any{}
	if _, err := toml.NewDecoder(&text).Decode(&keys); err != nil {
		return fmt.Errorf("read back the configuration: %w", err)
	}
	return out.json(keys)
}
