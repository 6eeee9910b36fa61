package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/footprint/early"
	"github.com/flynnhost/flynn/host/plugin"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the host until it is told to stop",
		Description: "SIGHUP reloads the configuration; so does a change of the file. A configuration that is wrong changes\n" +
			"nothing and is reported. SIGINT and SIGTERM stop the host; what is under way is taken up at the next start.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "last-good", Usage: "start from the last configuration that worked when the file is wrong"},
			&cli.StringSliceFlag{Name: "attach", Usage: "use the plugin process at `INSTANCE=unix:PATH`, which runs with -debug, in place of starting one"},
			&cli.StringFlag{Name: "log-level", Value: "info", Usage: "log from `LEVEL` on: debug, info, warn, error"},
		},
		Action: serve,
	}
}

func serve(ctx context.Context, cmd *cli.Command) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmd.String("log-level"))); err != nil {
		return usagef("--log-level %q: want debug, info, warn or error", cmd.String("log-level"))
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(cmd.Root().ErrWriter, options)
	if cmd.Bool("json") {
		handler = slog.NewJSONHandler(cmd.Root().ErrWriter, options)
	}
	attach := map[string]string{}
	for _, text := range cmd.StringSlice("attach") {
		instance, address, err := plugin.ParseAttach(text)
		if err != nil {
			return usagef("--attach %w", err)
		}
		attach[instance] = address
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	h, err := host.New(ctx, host.Config{
		Path: configPath(ctx, cmd), Getenv: getenvOf(ctx), Log: slog.New(handler), LastGood: cmd.Bool("last-good"),
		Version: version(), Hangup: hangup, PluginLauncher: pluginLauncher(), Attach: attach,
		Ready: early.Started,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.Root().Writer, "Flynn is ready: open %s\n", h.URL())
	return h.Run(ctx)
}
