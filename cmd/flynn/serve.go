package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/plugin"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the host until it is stopped",
		Description: "A change of the file reloads the configuration, and so does SIGHUP. A configuration that is wrong changes\n" +
			"nothing and is reported. SIGINT and SIGTERM stop the host, and so does its terminal when that is closed, except under\n" +
			"nohup; what is under way is taken up at the next start. The address of the chat page carries the gateway's token, so it is\n" +
			"printed to a terminal only; flynn web prints it again.",
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
	h, err := host.New(ctx, host.Config{
		Path: configPath(ctx, cmd), Getenv: getenvOf(ctx), Log: slog.New(handler), LastGood: cmd.Bool("last-good"),
		Version: version(), Hangup: reloads, PluginLauncher: pluginLauncher(), Attach: attach,
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.Root().Writer, welcome(h.URL(), h.TokenFile(), isTerminal(cmd.Root().Writer)))
	return h.Run(ctx)
}

// welcome says where the chat page is. Its address carries the token, which stays for good: it goes to a person's screen, and never to a
// file or a journal.
func welcome(url, tokenFile string, screen bool) string {
	if screen {
		return "Flynn is ready: open " + url
	}
	page, _, _ := strings.Cut(url, "#")
	return fmt.Sprintf("Flynn is ready: open %s with the token in %s, or the address that flynn web prints", page, tokenFile)
}
