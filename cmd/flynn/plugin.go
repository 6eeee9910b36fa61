package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/upkeep"
)

func pluginCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "dir", Usage: "work on the plugins in `DIR` (default: [plugins] dir of the configuration)"}
	sub := func(name, args, usage string, action cli.ActionFunc) *cli.Command {
		return &cli.Command{Name: name, ArgsUsage: args, Usage: usage, Flags: []cli.Flag{dir}, Action: action}
	}
	c := &cli.Command{
		Name:     "plugin",
		Category: groupExtend,
		Usage:    "install, inspect and remove plugins; flynn plugin dev is for their authors",
		Commands: append([]*cli.Command{
			withFlags(sub("install", "DIR|FILE|URL", "install a plugin, so that a channel or a provider of tools may use it", installPlugin), privateFlag()),
			sub("list", "", "list the plugins that are installed or come with flynn, and the state of their instances", listPlugins),
			sub("info", "NAME", "show a plugin's permissions, versions and containment", pluginInfo),
			sub("verify", "[NAME...]", "compare every file of installed plugins with the lock", verifyPlugins),
			withFlags(sub("upgrade", "NAME DIR|FILE|URL", "move a plugin to another version; a running flynn goes back when that fails", upgradePlugin), privateFlag()),
			sub("rollback", "NAME", "move a plugin to the version before", rollbackPlugin),
			sub("enable", "NAME", "let a plugin that was disabled start again", enablePlugin),
			sub("disable", "NAME", "stop a plugin and do not start it again", disablePlugin),
			withFlags(sub("remove", "NAME", "delete an installed plugin", removePlugin),
				&cli.BoolFlag{Name: "force", Usage: "remove it even if a channel or tool provider uses it"}),
			pluginInspectCommand(dir),
			{Name: "dev", Usage: "write, build, check, sign and pack a plugin", Commands: pluginAuthorCommands()},
		}, runningCommands()...),
	}
	return withOldNames(c, pluginAuthorCommands())
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

// configOf returns the configuration that the command works on; nil if --dir is set or the configuration cannot be loaded.
func configOf(ctx context.Context, cmd *cli.Command) *config.Config {
	if cmd.String("dir") != "" {
		return nil
	}
	c, _ := config.LoadBeside(configPath(ctx, cmd), getenvOf(ctx))
	return c
}

// storeAndName opens the store of plugins, and returns the first argument of the command.
func storeAndName(ctx context.Context, cmd *cli.Command) (*plugin.Store, string, error) {
	store, err := pluginStore(ctx, cmd)
	return store, cmd.Args().First(), err
}

// upkeepAndName returns the upkeep of the store of plugins, and the first argument of the command.
func upkeepAndName(ctx context.Context, cmd *cli.Command) (upkeep.Upkeep, string, error) {
	store, name, err := storeAndName(ctx, cmd)
	u := upkeep.Upkeep{Store: store, Config: configOf(ctx, cmd), Private: cmd.Bool("allow-private"), Log: buildLog(cmd)}
	return u, name, err
}

// showPermissions prints the permissions that a plugin asks for.
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
	return verifyAll(newOutput(ctx, cmd), cmd.Args().Slice(), store.List, func(p plugin.Locked) string { return p.Name },
		func(name string) (string, error) {
			locked, err := store.Verify(name)
			return locked.Version, err
		})
}

func removePlugin(ctx context.Context, cmd *cli.Command) error {
	u, name, err := upkeepAndName(ctx, cmd)
	if err != nil {
		return err
	}
	return u.Remove(name, cmd.Bool("force"))
}
