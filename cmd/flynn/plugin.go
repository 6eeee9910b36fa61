package main

import (
	"context"
	"fmt"
	"strings"
	"time"

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
		Usage: "install, verify and remove plugins, and write new ones",
		Commands: []*cli.Command{
			sub("install", "DIR", "copy the plugin in DIR and lock its files", installPlugin),
			sub("list", "", "list what is installed", listPlugins),
			sub("verify", "[NAME...]", "compare every file with the lock", verifyPlugins),
			sub("remove", "NAME", "take a plugin out of the lock and delete it", removePlugin),
			pluginNewCommand(), pluginConformCommand(), pluginInspectCommand(dir),
		},
	}
}

// pluginStore opens the store that the command works on.
func pluginStore(ctx context.Context, cmd *cli.Command) (*plugin.Store, error) {
	if dir := cmd.String("dir"); dir != "" {
		return plugin.OpenStore(dir)
	}
	c, err := config.Load(configPath(ctx, cmd), getenvOf(ctx))
	if err != nil {
		return nil, err
	}
	return plugin.OpenStore(c.Plugins.Dir)
}

// oneArgument returns the only argument of a command.
func oneArgument(cmd *cli.Command) (string, error) {
	if cmd.Args().Len() != 1 {
		return "", usagef("want one argument: %s %s", cmd.FullName(), cmd.ArgsUsage)
	}
	return cmd.Args().First(), nil
}

func installPlugin(ctx context.Context, cmd *cli.Command) error {
	dir, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	store, err := pluginStore(ctx, cmd)
	if err != nil {
		return err
	}
	p, err := store.Install(dir)
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		return out.json(p.Locked)
	}
	what := "installed"
	if p.Known {
		what = "already installed:"
	}
	out.line("%s %s %s, %d files", what, p.Name, p.Version, len(p.Files))
	showPermissions(out, p)
	return nil
}

// showPermissions tells the operator what the plugin wants, at the moment at which it can still be removed.
func showPermissions(out *output, p plugin.Installed) {
	asks := p.Manifest.Permissions
	for _, row := range []struct {
		what string
		list []string
	}{{"network", asks.Network}, {"host services", asks.Host}, {"environment", asks.Env}, {"secrets", p.Manifest.Config.Secrets}} {
		if len(row.list) > 0 {
			out.line("  %s: %s", row.what, strings.Join(row.list, ", "))
		}
	}
}

func listPlugins(ctx context.Context, cmd *cli.Command) error {
	store, err := pluginStore(ctx, cmd)
	if err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		if list == nil {
			list = []plugin.Locked{}
		}
		return out.json(list)
	}
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{
			p.Name, p.Version, p.Platform, fmt.Sprint(len(p.Files)), p.Installed.Local().Format(time.DateTime), p.Source,
		})
	}
	return out.table([]string{"NAME", "VERSION", "PLATFORM", "FILES", "INSTALLED", "SOURCE"}, rows)
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
	return store.Remove(name)
}
