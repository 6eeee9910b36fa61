package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/service"
	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Category: groupStart,
		Usage: "run the host until it is stopped",
		Description: "The configuration is reloaded when the file changes and on SIGHUP. A file with errors is reported and changes nothing.\n" +
			"SIGINT and SIGTERM stop the host, and so does closing its terminal, except under nohup; the next start continues the work\n" +
			"under way. The address of the chat page contains the gateway's token, so it is printed only to a terminal; flynn open --print prints\n" +
			"it again.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "last-good", Usage: "fall back to the last working configuration if the file has errors"},
			&cli.StringSliceFlag{Name: "attach", Usage: "use the running plugin process at `INSTANCE=unix:PATH` (started with -debug) instead of starting one"},
			&cli.StringFlag{Name: "log-level", Value: "info", Usage: "minimum log `LEVEL`: debug, info, warn, error"},
		},
		Action: serve,
	}
}

func serve(ctx context.Context, cmd *cli.Command) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmd.String("log-level"))); err != nil {
		return usagef("--log-level %q: must be debug, info, warn or error", cmd.String("log-level"))
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
	ctx, reloads, done := hangups(ctx)
	defer done()
	log := slog.New(handler)
	return host.Serve(ctx, host.Config{
		Path: configPath(ctx, cmd), Getenv: getenvOf(ctx), Log: log, LastGood: cmd.Bool("last-good"),
		Version: buildinfo.Version(), Hangup: reloads, PluginLauncher: pluginLauncher(), Web: web(), Attach: attach,
		Ready: func() {
			if err := service.Ready(getenvOf(ctx)); err != nil {
				log.Error("systemd will stop flynn, which it believes to be starting", "error", err)
			}
		},
	}, func(h *host.Host) {
		w := cmd.Root().Writer
		fmt.Fprintln(w, welcome(h.URL(), h.TokenFile(), isTerminal(w)))
		if isTerminal(w) {
			fmt.Fprintf(w, "Or talk to it from a second terminal: %s\n%s\n\n", config.CommandLine(configPath(ctx, cmd), "chat"), h.Intro().Text())
		}
	})
}

// welcome says where the chat page is. The page's address contains the token, which does not expire: it is shown on a person's screen, but
// never written to a file or a journal.
func welcome(url, tokenFile string, screen bool) string {
	if screen {
		return "Flynn is ready: open " + url
	}
	page, _, _ := strings.Cut(url, "#")
	return fmt.Sprintf("Flynn is ready: open %s with the token in %s, or the address that flynn open --print prints", page, tokenFile)
}
