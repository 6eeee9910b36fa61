package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
)

func pluginInspectCommand(dir cli.Flag) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		ArgsUsage: "DIR|NAME",
		Usage:     "start a plugin and show its description",
		Description: "NAME is an installed plugin, DIR a folder with plugin.toml. The process gets no configuration and no secret, and is\n" +
			"stopped when it has answered. The exit code is 1 if the host would refuse it.",
		Flags:  []cli.Flag{dir},
		Action: inspectPlugin,
	}
}

func inspectPlugin(ctx context.Context, cmd *cli.Command) error {
	c, err := probeOf(ctx, cmd, cmd.Args().First())
	if err != nil {
		return err
	}
	i, err := plugin.Inspect(ctx, c)
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		err = out.json(i)
	} else {
		showInspection(out, i)
	}
	if err == nil && len(i.Disagreements) > 0 {
		err = reported{fmt.Errorf("the process contradicts %s", plugin.ManifestName)}
	}
	return err
}

// probeOf treats an argument as a folder if it contains a manifest or a slash, and otherwise as the name of an installed plugin.
func probeOf(ctx context.Context, cmd *cli.Command, what string) (plugin.ProbeConfig, error) {
	if _, err := os.Stat(filepath.Join(what, plugin.ManifestName)); err == nil || strings.ContainsRune(what, filepath.Separator) {
		return plugin.ProbeConfig{Dir: what}, nil
	}
	if dir := cmd.String("dir"); dir != "" {
		return plugin.ProbeConfig{Store: dir, Name: what}, nil
	}
	conf, err := config.LoadBeside(configPath(ctx, cmd), getenvOf(ctx))
	if err != nil {
		return plugin.ProbeConfig{}, err
	}
	return plugin.ProbeConfig{Store: conf.Plugins.Dir, Name: what}, nil
}

func showInspection(out *output, i plugin.Inspection) {
	m := i.Manifest
	row := func(what, text string) { out.line("%-12s %s", what, cell(text)) }
	row("name", m.Name+" "+m.Version)
	row("about", m.Description)
	row("kinds", fmt.Sprint(m.Kinds))
	row("encryption", m.Run.TLS)
	row("network", strings.Join(m.Permissions.Network, ", "))
	row("host", strings.Join(m.Permissions.Host, ", "))
	row("secrets", strings.Join(m.Config.Secrets, ", "))
	row("serves", strings.Join(i.Services, ", "))
	row("says", string(i.Describe))
	row("started in", i.Start.Round(time.Millisecond).String())
	for _, d := range i.Disagreements {
		row("WRONG", d)
	}
}
