package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

func sessionCommand() *cli.Command {
	return &cli.Command{
		Name: "session", Category: groupTalk,
		Usage: "list, print, export, import and remove sessions",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the sessions, latest first", Action: sessionList,
				Flags: []cli.Flag{&cli.IntFlag{Name: "limit", Value: 100, Usage: "at most `N`"}},
			},
			{Name: "show", Usage: "print a session's transcript", ArgsUsage: "KEY", Action: sessionShow},
			{
				Name: "export", Usage: "export a session as JSON lines", ArgsUsage: "KEY", Action: sessionExport,
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

// withSessions calls do with the sessions of the configuration's store.
func withSessions(ctx context.Context, cmd *cli.Command, do func(admin.Sessions) error) error {
	cfg, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	return admin.ReadSessions(ctx, cfg, do)
}

// noSession replaces the error of a session that does not exist.
func noSession(key message.SessionKey, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("no session %q (run \"flynn session list\")", key)
	}
	return err
}

type sessionLine struct {
	Key   message.SessionKey `json:"key"`
	Agent string             `json:"agent"`
	Turns int                `json:"turns"`
	Last  time.Time          `json:"last"`
}

func sessionList(ctx context.Context, cmd *cli.Command) error {
	return withSessions(ctx, cmd, func(r admin.Sessions) error {
		all, err := r.Sessions(ctx, cmd.Int("limit"))
		if err != nil {
			return err
		}
		var lines []sessionLine
		for _, s := range all {
			lines = append(lines, sessionLine(s))
		}
		return printListOr(newOutput(ctx, cmd), lines, "no sessions yet: begin one with flynn chat, or write to a channel", []string{"SESSION", "AGENT", "TURNS", "LAST"}, func(s sessionLine) []string {
			return []string{string(s.Key), s.Agent, number(s.Turns), s.Last.Format(time.RFC3339)}
		})
	})
}

type sessionPiece struct {
	Turn string    `json:"turn"`
	At   time.Time `json:"at,omitzero"`
	From string    `json:"from"`
	Text string    `json:"text"`
}

func sessionShow(ctx context.Context, cmd *cli.Command) error {
	key := message.SessionKey(cmd.Args().First())
	return withSessions(ctx, cmd, func(r admin.Sessions) error {
		if _, err := r.Session(ctx, key); err != nil {
			return noSession(key, err)
		}
		turns, err := r.SessionTurns(ctx, key)
		if err != nil {
			return err
		}
		var pieces []sessionPiece
		for _, t := range turns {
			steps, err := r.Steps(ctx, t.ID)
			if err != nil {
				return err
			}
			told, err := transcript.Describe(t, steps, t.Error)
			if err != nil {
				return err
			}
			for _, p := range told {
				pieces = append(pieces, sessionPiece{t.ID, p.At, from(t, p), p.Text})
			}
		}
		return printList(newOutput(ctx, cmd), pieces, []string{"TIME", "FROM", "TEXT"}, func(s sessionPiece) []string {
			return []string{s.At.Format(time.RFC3339), s.From, s.Text}
		})
	})
}

// from names the author of a piece of a turn.
func from(t turnlog.Turn, p transcript.Piece) string {
	switch {
	case p.Said:
		return string(t.Sender)
	case p.Call != nil:
		return p.Call.Tool
	}
	return t.Agent
}

func sessionExport(ctx context.Context, cmd *cli.Command) error {
	key := message.SessionKey(cmd.Args().First())
	return withSessions(ctx, cmd, func(r admin.Sessions) error {
		if _, err := r.Session(ctx, key); err != nil { // before the file is created
			return noSession(key, err)
		}
		name := cmd.String("output")
		if name == "" {
			return session.Export(ctx, r, key, time.Now(), cmd.Root().Writer)
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("create the file: %w", err)
		}
		if err := errors.Join(session.Export(ctx, r, key, time.Now(), f), f.Sync(), f.Close()); err != nil {
			return errors.Join(err, os.Remove(name))
		}
		return nil
	})
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
	return newOutput(ctx, cmd).success(sessionLine(s), "imported: flynn session show %s", s.Key)
}

// importInto imports a file into the running host or, while none runs, into its store.
func importInto(ctx context.Context, cfg *config.Config, in io.Reader) (gateway.ImportedSession, error) {
	var taken gateway.ImportedSession
	kept := &bytes.Buffer{} // what the first attempt read: stdin cannot be read twice
	err := client.Send(ctx, cfg, http.MethodPost, gateway.ImportPath, "application/jsonl", io.TeeReader(in, kept), &taken)
	if !errors.Is(err, client.ErrNotRunning) {
		return taken, err
	}
	err = admin.ChangeSessions(ctx, cfg, func(a turnlog.Archive) error {
		s, err := session.Import(ctx, a, io.MultiReader(kept, in))
		taken = gateway.ImportedSession(s)
		return err
	})
	return taken, err
}

func sessionDelete(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	key := message.SessionKey(cmd.Args().First())
	path := fmt.Sprintf("/api/v1/sessions/%s?stop=%t", url.PathEscape(string(key)), cmd.Bool("stop"))
	err := client.Ask(ctx, cfg, http.MethodDelete, path, nil, nil)
	out := newOutput(ctx, cmd)
	if errors.Is(err, client.ErrNotRunning) {
		var left error
		if left, err = admin.DeleteSession(ctx, cfg, key, terminalOwner); left != nil {
			out.warn("its containers and volumes are removed at the next start: %v", left)
		}
		err = noSession(key, err)
	}
	if err == nil {
		out.done("%s is deleted", key)
	}
	return err
}
