package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func memoryCommand() *cli.Command {
	return &cli.Command{
		Name: "memory", Usage: "show and delete the notes that agents keep",
		Commands: []*cli.Command{
			{Name: "list", Usage: "show notes, the latest first", Flags: scopeFlags(true), Action: listNotes},
			{Name: "search", Usage: "show notes that contain all of the words", ArgsUsage: "WORD...", Flags: scopeFlags(true), Action: searchNotes},
			{
				Name: "forget", Usage: "delete notes", ArgsUsage: "[ID...]", Action: forgetNotes,
				Description: "Names notes by their ids, or all of a person, an agent or a key. The words themselves may still stand in transcripts.",
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

func listNotes(ctx context.Context, cmd *cli.Command) error { return printNotes(ctx, cmd, "") }

func searchNotes(ctx context.Context, cmd *cli.Command) error {
	words := strings.Join(cmd.Args().Slice(), " ")
	if words == "" {
		return usagef("name a word to look for")
	}
	return printNotes(ctx, cmd, words)
}

func printNotes(ctx context.Context, cmd *cli.Command, words string) error {
	q := memory.NoteQuery{Agent: cmd.String("agent"), Words: words, Limit: cmd.Int("limit")}
	switch {
	case cmd.String("person") != "" && cmd.Bool("shared"):
		return usagef("choose --person or --shared")
	case q.Limit <= 0:
		return usagef("the limit must be above 0")
	case cmd.String("person") != "":
		q.Persons = []string{cmd.String("person")}
	case cmd.Bool("shared"):
		q.Persons = []string{memory.Own}
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	notes, err := admin.Notes(ctx, c, q)
	if err != nil {
		return err
	}
	return showNotes(newOutput(ctx, cmd), notes)
}

func showNotes(o *output, notes []memory.Note) error {
	if o.asJSON {
		if notes == nil {
			notes = []memory.Note{}
		}
		return o.json(notes)
	}
	var rows [][]string
	for _, n := range notes {
		rows = append(rows, []string{
			strconv.FormatInt(n.ID, 10), n.Agent, n.Person, n.Key, beginning(n.Text), n.By, localTime(n.Updated), n.Turn, strings.Join(n.Labels, " "),
		})
	}
	return o.table([]string{"ID", "AGENT", "PERSON", "KEY", "TEXT", "BY", "WRITTEN", "TURN", "LABELS"}, rows)
}

// beginning is as much of a note as a table shows.
func beginning(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func forgetNotes(ctx context.Context, cmd *cli.Command) error {
	f := gateway.Forget{Agent: cmd.String("agent"), Person: cmd.String("person"), Shared: cmd.Bool("shared"), Key: cmd.String("key")}
	for _, arg := range cmd.Args().Slice() {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id <= 0 {
			return usagef("%q is no id of a note (run %q)", arg, "flynn memory list")
		}
		f.IDs = append(f.IDs, id)
	}
	if len(f.Queries()) == 0 {
		return usagef("name notes by their ids, or by --person, --shared, --agent or --key")
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	var gone []memory.Note
	err = client.Ask(ctx, c, "/api/v1/memory/forget", f, &gone)
	if errors.Is(err, client.ErrNotRunning) {
		gone, err = admin.ForgetNotes(ctx, c, f)
	}
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		err = showNotes(o, gone)
	} else if len(gone) > 0 || len(f.IDs) == 0 {
		o.line("%d forgotten", len(gone))
	}
	return errors.Join(err, unknownNotes(f.IDs, gone))
}

// unknownNotes says which of the notes that were named are not among those that are gone.
func unknownNotes(ids []int64, gone []memory.Note) error {
	var none []string
	for _, id := range ids {
		if !slices.ContainsFunc(gone, func(n memory.Note) bool { return n.ID == id }) {
			none = append(none, strconv.FormatInt(id, 10))
		}
	}
	switch len(none) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("there is no note %s (run %q)", none[0], "flynn memory list")
	}
	return fmt.Errorf("there are no notes %s (run %q)", strings.Join(none, ", "), "flynn memory list")
}
