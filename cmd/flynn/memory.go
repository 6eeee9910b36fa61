package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"

	"github.com/flynnhost/flynn/host/config"
)

func memoryCommand() *cli.Command {
	return &cli.Command{
		Name: "memory", Category: groupPeople, Usage: "show and delete the notes that agents keep",
		Commands: []*cli.Command{
			{Name: "list", Usage: "show notes, the latest first", Flags: scopeFlags(true), Action: withConfig(printNotes)},
			{Name: "search", Usage: "show notes that contain all of the words", ArgsUsage: "WORD...", Flags: scopeFlags(true), Action: withConfig(printNotes)},
			{
				Name: "forget", Usage: "delete notes", ArgsUsage: "[ID...]", Action: withConfig(forgetNotes),
				Description: "Deletes the notes with the given ids, or all of a person, an agent or a key. Transcripts may still contain their text.",
				Flags:       append(scopeFlags(false), &cli.StringFlag{Name: "key", Usage: "only notes under `KEY`"}),
			},
		},
	}
}

func scopeFlags(limit bool) []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "agent", Usage: "only notes of the agent `NAME`"},
		&cli.StringFlag{Name: "person", Usage: "only notes about `SENDER`, such as telegram:12345"},
		&cli.BoolFlag{Name: "shared", Usage: "only notes about no particular person"},
	}
	if limit {
		flags = append(flags, &cli.IntFlag{Name: "limit", Usage: "at most `N`", Value: 100})
	}
	return flags
}

func printNotes(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	f := gateway.NoteFilter{
		Q: strings.Join(cmd.Args().Slice(), " "), Agent: cmd.String("agent"), Person: cmd.String("person"), Shared: cmd.Bool("shared"),
	}
	limit := cmd.Int("limit")
	query, err := f.Query()
	switch {
	case err != nil:
		return usagef("choose --person or --shared")
	case limit <= 0:
		return usagef("the limit must be above 0")
	}
	q := url.Values{"q": {f.Q}, "agent": {f.Agent}, "person": {f.Person}, "shared": {strconv.FormatBool(f.Shared)}}
	notes, err := pagesOrRead(ctx, c, "/api/v1/memory/notes", q, limit, func() ([]memory.Note, error) {
		query.Limit = limit
		return admin.Notes(ctx, c, query)
	})
	if err != nil {
		return err
	}
	return showNotes(newOutput(ctx, cmd), notes)
}

func showNotes(o *output, notes []memory.Note) error {
	return printListOr(o, notes, "no notes: agents with the tool memory.write write them (tool_profile messaging or full)", []string{"ID", "AGENT", "PERSON", "KEY", "TEXT", "BY", "WRITTEN", "TURN", "LABELS"}, func(n memory.Note) []string {
		return []string{number(n.ID), n.Agent, n.Person, n.Key, beginning(n.Text), n.By, localTime(n.Updated), n.Turn, strings.Join(n.Labels, " ")}
	})
}

// beginning returns the part of a note that a table shows.
func beginning(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func forgetNotes(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	f := gateway.Forget{Agent: cmd.String("agent"), Person: cmd.String("person"), Shared: cmd.Bool("shared"), Key: cmd.String("key")}
	for _, arg := range cmd.Args().Slice() {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id <= 0 {
			return usagef("%q is not the id of a note (run %q)", arg, "flynn memory list")
		}
		f.IDs = append(f.IDs, id)
	}
	if len(f.Queries()) == 0 {
		return usagef("name notes by their ids, or by --person, --shared, --agent or --key")
	}
	gone, err := askOrRead(ctx, c, http.MethodPost, "/api/v1/memory/forget", f, func() ([]memory.Note, error) { return admin.ForgetNotes(ctx, c, f) })
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		err = showNotes(o, gone)
	} else if len(gone) > 0 || len(f.IDs) == 0 {
		o.line("%d notes deleted", len(gone))
	}
	return errors.Join(err, unknownNotes(f.IDs, gone))
}

// unknownNotes returns the error for ids that are not among the deleted notes.
func unknownNotes(ids []int64, gone []memory.Note) error {
	var none []string
	for _, id := range ids {
		if !slices.ContainsFunc(gone, func(n memory.Note) bool { return n.ID == id }) {
			none = append(none, number(id))
		}
	}
	if len(none) == 0 {
		return nil
	}
	return fmt.Errorf("no note with id %s (run %q)", strings.Join(none, ", "), "flynn memory list")
}
