package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/message"
)

func sessionCommand() *cli.Command {
	return &cli.Command{
		Name: "session", Category: groupTalk,
		Usage: "list, print, export, import and remove sessions",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the sessions, latest first", Action: withConfig(sessionList),
				Flags: []cli.Flag{&cli.IntFlag{Name: "limit", Value: 100, Usage: "at most `N`"}},
			},
			{Name: "show", Usage: "print a session's transcript", ArgsUsage: "KEY", Action: withConfig(sessionShow)},
			{
				Name: "export", Usage: "export a session as JSON lines", ArgsUsage: "KEY", Action: withConfig(sessionExport),
				Description: "Turns and steps with their provenance labels, and the summary of older ones; no files of the workspace. A running turn is left out.",
				Flags:       []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, which must not exist (default: stdout)"}},
			},
			{
				Name: "import", Usage: "import an exported session under its own key", ArgsUsage: "FILE", Action: withConfig(sessionImport),
				Description: "- reads stdin. An existing session is not changed. Policies see a label which says that the content comes from elsewhere.\n" +
					"A running flynn accepts files up to 64 MiB.",
			},
			{
				Name: "delete", Usage: "remove a session", ArgsUsage: "KEY", Action: withConfig(sessionDelete),
				Description: "Deletes its turns, summaries and notes, the text of its messages, its grants, containers and volumes, and files that no other\n" +
					"session has. The logs of decisions, audit, egress and usage and the files of the workspace stay. The chat command is /delete.",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "stop", Usage: "stop a running answer first"}},
			},
		},
	}
}

func sessionList(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	list, err := pagesOrRead(ctx, cfg, "/api/v1/sessions", nil, cmd.Int("limit"), func() ([]gateway.SessionInfo, error) {
		return admin.Sessions(ctx, cfg, cmd.Int("limit"))
	})
	if err != nil {
		return err
	}
	header := []string{"SESSION", "AGENT", "TURNS", "LAST"}
	return printListOr(newOutput(ctx, cmd), list, "no sessions yet: begin one with flynn chat, or write to a channel", header, func(s gateway.SessionInfo) []string {
		return []string{string(s.Key), s.Agent, number(s.Turns), s.Last.Format(time.RFC3339)}
	})
}

func sessionShow(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	key := message.SessionKey(cmd.Args().First())
	pieces, err := pagesOrRead(ctx, cfg, sessionAt(key)+"/transcript", nil, math.MaxInt, func() ([]session.Piece, error) {
		return admin.Transcript(ctx, cfg, key)
	})
	if err != nil {
		return err
	}
	return printList(newOutput(ctx, cmd), pieces, []string{"TIME", "FROM", "TEXT"}, func(p session.Piece) []string {
		return []string{p.At.Format(time.RFC3339), p.From, p.Text}
	})
}

func sessionAt(key message.SessionKey) string {
	return "/api/v1/sessions/" + url.PathEscape(string(key))
}

func sessionExport(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	key, out := message.SessionKey(cmd.Args().First()), &created{name: cmd.String("output")}
	to := io.Writer(out)
	if out.name == "" {
		to = cmd.Root().Writer
	}
	err := copyOrRead(ctx, cfg, sessionAt(key)+"/export", to, func() error { return admin.ExportSession(ctx, cfg, key, to) })
	return out.end(err)
}

// created is a file that is made when its first byte comes.
type created struct {
	name string
	f    *os.File
}

// Write implements io.Writer.
func (c *created) Write(p []byte) (n int, err error) {
	if c.f == nil {
		if c.f, err = os.OpenFile(c.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
			return 0, fmt.Errorf("create the file: %w", err)
		}
	}
	return c.f.Write(p)
}

// end closes the file, and removes it if err or this fails.
func (c *created) end(err error) error {
	if c.f == nil {
		return err
	}
	if err = errors.Join(err, c.f.Sync(), c.f.Close()); err != nil {
		err = errors.Join(err, os.Remove(c.name))
	}
	return err
}

func sessionImport(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	name, in := cmd.Args().First(), cmd.Root().Reader
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open the file: %w", err)
		}
		defer f.Close()
		in = f
	}
	s, err := importInto(ctx, cfg, in)
	if err != nil {
		return fmt.Errorf("import %s: %w", name, err)
	}
	return newOutput(ctx, cmd).success(s, "imported: flynn session show %s", s.Key)
}

// importInto imports a file into the running host or, while none runs, into its store.
func importInto(ctx context.Context, cfg *config.Config, in io.Reader) (gateway.SessionInfo, error) {
	var taken gateway.SessionInfo
	kept := &bytes.Buffer{} // what the first attempt read: stdin cannot be read twice
	err := client.Send(ctx, cfg, http.MethodPost, gateway.ImportPath, "application/jsonl", io.TeeReader(in, kept), &taken)
	if !errors.Is(err, client.ErrNotRunning) {
		return taken, err
	}
	err = admin.ChangeSessions(ctx, cfg, func(a turnlog.Archive) error {
		s, err := session.Import(ctx, a, io.MultiReader(kept, in))
		taken = gateway.SessionInfo(s)
		return err
	})
	return taken, err
}

func sessionDelete(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	key := message.SessionKey(cmd.Args().First())
	path := fmt.Sprintf("%s?stop=%t", sessionAt(key), cmd.Bool("stop"))
	err := client.Ask(ctx, cfg, http.MethodDelete, path, nil, nil)
	out := newOutput(ctx, cmd)
	if errors.Is(err, client.ErrNotRunning) {
		var left error
		if left, err = admin.DeleteSession(ctx, cfg, pluginLauncher(), key, terminalOwner); left != nil {
			out.warn("its containers and volumes are removed at the next start: %v", left)
		}
		err = session.Missing(key, err)
	}
	if err == nil {
		out.done("%s is deleted", key)
	}
	return err
}
