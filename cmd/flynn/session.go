package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/store"
)

func sessionCommand() *cli.Command {
	return &cli.Command{
		Name:  "session",
		Usage: "list, print, export, import and remove sessions",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the sessions, latest first", Action: sessionList,
				Flags: []cli.Flag{&cli.IntFlag{Name: "limit", Value: 100, Usage: "at most `N`"}},
			},
			{Name: "show", Usage: "print a session's transcript", ArgsUsage: "KEY", Action: sessionShow},
			{
				Name: "export", Usage: "export a session as JSON lines", ArgsUsage: "KEY", Action: sessionExport,
				Description: "Turns and steps with their provenance labels, and the summary of older ones; no files of the workspace. A turn that runs is left out.",
				Flags:       []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, which must not exist (default: stdout)"}},
			},
			{
				Name: "import", Usage: "import an exported session under its own key", ArgsUsage: "FILE", Action: sessionImport,
				Description: "- reads stdin. A session that is there is not touched. Policies are told that nobody here has said what is in it.\n" +
					"A running flynn takes files up to 64 MiB.",
			},
			{
				Name: "delete", Usage: "remove a session", ArgsUsage: "KEY", Action: sessionDelete,
				Description: "With it go its turns, summaries and notes, what its messages say, grants for it, its containers and volumes, and files that no other\n" +
					"session has. The logs of decisions, audit, egress and usage and the files of the workspace stay. In chat it is /delete.",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "stop", Usage: "stop a running answer first"}},
			},
		},
	}
}

// withSessions lets do read the sessions of the configuration.
func withSessions(ctx context.Context, cmd *cli.Command, do func(admin.Sessions) error) error {
	cfg, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	return admin.ReadSessions(ctx, cfg, do)
}

// noSession puts words to the commonest mistake.
func noSession(key string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("no session %q (run \"flynn session list\")", key)
	}
	return err
}

type sessionLine struct {
	Key   string    `json:"key"`
	Agent string    `json:"agent"`
	Turns int       `json:"turns"`
	Last  time.Time `json:"last"`
}

func sessionList(ctx context.Context, cmd *cli.Command) error {
	return withSessions(ctx, cmd, func(r admin.Sessions) error {
		all, err := r.Sessions(ctx, cmd.Int("limit"))
		if err != nil {
			return err
		}
		lines, rows := []sessionLine{}, [][]string{}
		for _, s := range all {
			lines = append(lines, sessionLine(s))
			rows = append(rows, []string{s.Key, s.Agent, strconv.Itoa(s.Turns), s.Last.Format(time.RFC3339)})
		}
		out := newOutput(ctx, cmd)
		if out.asJSON {
			return out.json(lines)
		}
		return out.table([]string{"SESSION", "AGENT", "TURNS", "LAST"}, rows)
	})
}

type sessionPiece struct {
	Turn string    `json:"turn"`
	At   time.Time `json:"at,omitzero"`
	From string    `json:"from"`
	Text string    `json:"text"`
}

func sessionShow(ctx context.Context, cmd *cli.Command) error {
	key, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	return withSessions(ctx, cmd, func(r admin.Sessions) error {
		if _, err := r.Session(ctx, key); err != nil {
			return noSession(key, err)
		}
		turns, err := r.SessionTurns(ctx, key)
		if err != nil {
			return err
		}
		pieces, rows := []sessionPiece{}, [][]string{}
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
				s := sessionPiece{t.ID, p.At, from(t, p), p.Text}
				pieces = append(pieces, s)
				rows = append(rows, []string{s.At.Format(time.RFC3339), s.From, s.Text})
			}
		}
		out := newOutput(ctx, cmd)
		if out.asJSON {
			return out.json(pieces)
		}
		return out.table([]string{"TIME", "FROM", "TEXT"}, rows)
	})
}

// from tells who a piece of a turn is by.
func from(t turnlog.Turn, p transcript.Piece) string {
	switch {
	case p.Said:
		return t.Sender
	case p.Call != nil:
		return p.Call.Tool
	}
	return t.Agent
}

func sessionExport(ctx context.Context, cmd *cli.Command) error {
	key, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	return withSessions(ctx, cmd, func(r admin.Sessions) error {
		if _, err := r.Session(ctx, key); err != nil { // before a file is made
			return noSession(key, err)
		}
		name := cmd.String("output")
		if name == "" {
			return session.Export(ctx, r, key, time.Now(), cmd.Root().Writer)
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("make the file: %w", err)
		}
		if err := errors.Join(session.Export(ctx, r, key, time.Now(), f), f.Sync(), f.Close()); err != nil {
			return errors.Join(err, os.Remove(name))
		}
		return nil
	})
}

func sessionImport(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	in := cmd.Root().Reader
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open the file: %w", err)
		}
		defer f.Close()
		in = f
	}
	cfg, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	s, err := importInto(ctx, cfg, in)
	if err != nil {
		return fmt.Errorf("import %s: %w", name, err)
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		return out.json(sessionLine(s))
	}
	out.done("imported: flynn session show %s", s.Key)
	return nil
}

// importInto has the running host take a file in or, while none runs, the store.
func importInto(ctx context.Context, cfg *config.Config, in io.Reader) (gateway.ImportedSession, error) {
	var taken gateway.ImportedSession
	kept := &bytes.Buffer{} // what the attempt has read of a file that cannot be read twice
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

func sessionDelete(ctx context.Context, cmd *cli.Command) error {
	key, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	var deleted struct{ Deleted bool }
	err = client.Ask(ctx, cfg, gateway.DeleteSessionPath, gateway.DeleteSession{Key: key, Stop: cmd.Bool("stop")}, &deleted)
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
