package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
)

func pluginCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "dir", Usage: "work on the plugins in `DIR` (default: [plugins] dir of the configuration)"}
	sub := func(name, args, usage string, action cli.ActionFunc) *cli.Command {
		return &cli.Command{Name: name, ArgsUsage: args, Usage: usage, Flags: []cli.Flag{dir}, Action: action}
	}
	return &cli.Command{
		Name:  "plugin",
		Usage: "install, inspect, write and remove plugins",
		Commands: append([]*cli.Command{
			withFlags(sub("install", "DIR|FILE|URL", "lock the files of a plugin, so that a channel or a provider of tools may use it", installPlugin), privateFlag()),
			sub("list", "", "list what is installed, and how each instance is", listPlugins),
			sub("info", "NAME", "show what a plugin asks for, its versions, and what holds it in", pluginInfo),
			sub("verify", "[NAME...]", "compare every file with the lock", verifyPlugins),
			withFlags(sub("upgrade", "NAME DIR|FILE|URL", "move a plugin to another version; a running flynn goes back when that fails", upgradePlugin), privateFlag()),
			sub("rollback", "NAME", "move a plugin to the version before", rollbackPlugin),
			sub("enable", "NAME", "let a plugin that was disabled start again", enablePlugin),
			sub("disable", "NAME", "stop a plugin, and start it no more", disablePlugin),
			withFlags(sub("remove", "NAME", "take a plugin out of the lock and delete it", removePlugin),
				&cli.BoolFlag{Name: "force", Usage: "remove it even if a channel or tool provider uses it"}),
			pluginNewCommand(), pluginConformCommand(), pluginInspectCommand(dir),
		}, append(runningCommands(), authorCommands()...)...),
	}
}

func withFlags(c *cli.Command, flags ...cli.Flag) *cli.Command {
	c.Flags = append(c.Flags, flags...)
	return c
}

// pluginStore opens the store that the command works on.
func pluginStore(ctx context.Context, cmd *cli.Command) (*plugin.Store, error) {
	if dir := cmd.String("dir"); dir != "" {
		return plugin.OpenStore(dir)
	}
	c, err := config.LoadBeside(configPath(ctx, cmd), getenvOf(ctx))
	if err != nil {
		return nil, err
	}
	return plugin.OpenStore(c.Plugins.Dir)
}

// configOf is the configuration that the command works on; nil where --dir names a folder or there is none to be had.
func configOf(ctx context.Context, cmd *cli.Command) *config.Config {
	if cmd.String("dir") != "" {
		return nil
	}
	c, err := config.LoadBeside(configPath(ctx, cmd), getenvOf(ctx))
	if err != nil {
		return nil
	}
	return c
}

// oneArgument returns the only argument of a command.
func oneArgument(cmd *cli.Command) (string, error) {
	if cmd.Args().Len() != 1 {
		return "", usagef("needs one argument: %s %s", cmd.FullName(), cmd.ArgsUsage)
	}
	return cmd.Args().First(), nil
}

// showPermissions tells the operator what the plugin wants, at the moment at which it can still be removed.
func showPermissions(out *output, p plugin.Manifest) {
	asks := p.Permissions
	for _, row := range []struct {
		what string
		list []string
	}{
		{"network", asks.Network}, {"reads", asks.Read}, {"writes", asks.Write}, {"host services", asks.Host}, {"environment", asks.Env},
		{"secrets", p.Config.Secrets},
	} {
		if len(row.list) > 0 {
			out.line("  %s: %s", row.what, strings.Join(row.list, ", "))
		}
	}
	if n := asks.WebhookBody; n > 0 {
		out.line("  webhooks of up to %d KiB", n>>10)
	}
}

func verifyPlugins(ctx context.Context, cmd *cli.Command) error {
	store, err := pluginStore(ctx, cmd)
	if err != nil {
		return err
	}
	names := cmd.Args().Slice()
	if len(names) == 0 {
		list, err := store.List()
		if err != nil {
			return err
		}
		for _, p := range list {
			names = append(names, p.Name)
		}
	}
	return verifyAll(newOutput(ctx, cmd), names, func(name string) (string, error) {
		locked, err := store.Verify(name)
		return locked.Version, err
	})
}

func removePlugin(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	store, err := pluginStore(ctx, cmd)
	if err != nil {
		return err
	}
	if c := configOf(ctx, cmd); c != nil && !cmd.Bool("force") {
		for _, instance := range slices.Sorted(maps.Keys(c.Channels)) {
			if use := c.Channels[instance]; use.Enabled && use.Plugin == name {
				return fmt.Errorf("remove plugin %s: [channels.%s] uses it: set enabled = false there, or say --force", name, instance)
			}
		}
		for _, instance := range slices.Sorted(maps.Keys(c.Tools)) {
			if use := c.Tools[instance]; use.Enabled && use.Plugin == name {
				return fmt.Errorf("remove plugin %s: [tools.%s] uses it: set enabled = false there, or say --force", name, instance)
			}
		}
	}
	return store.Remove(name)
}
