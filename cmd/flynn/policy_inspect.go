package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/policy/author"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Usage: "inspect a policy's module without running it", ArgsUsage: "[DIR|FILE]", Action: inspectPolicy,
	}
}

func inspectPolicy(ctx context.Context, cmd *cli.Command) error {
	s, err := author.Inspect(ctx, policyDirs(cmd)[0])
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		err = o.json(s)
	} else {
		err = printSheet(o, s)
	}
	if err == nil && len(s.Problems) > 0 && s.Problems[0].Refused {
		return reported{errors.New("the loader refuses the module")}
	}
	return err
}

// printSheet prints problems first.
func printSheet(o *output, s author.Sheet) error {
	for _, p := range s.Problems {
		word := "note"
		if p.Refused {
			word = "REFUSED"
		}
		o.line("%s: %s", word, cell(p.Text))
	}
	if s.Functions == 0 {
		return nil
	}
	for _, row := range [][2]string{
		{"module", fmt.Sprintf("%s, %d bytes", s.Path, s.Bytes)},
		{"sha256", s.SHA256},
		{"digest", s.Digest},
		{"contract", s.Contract},
		{"hooks", strings.Join(s.Kinds, ", ")},
		{"memory", pages(s)},
		{"functions", fmt.Sprintf("%d, %d bytes of code, %d calls through tables", s.Functions, s.Code, s.IndirectCalls)},
		{"recursion", recursion(s)},
		{"data", fmt.Sprintf("%d bytes", s.Data)},
		{"globals", fmt.Sprintf("%d, %d of them mutable", s.Globals, s.Mutable)},
		{"tables", strings.Join(s.Tables, "; ")},
		{"floats", yesNo(s.Floats)},
		{"hidden state", strings.Join(s.Hidden, ", ")},
		{"made with", producers(s)},
		{"lines known", yesNo(s.Lines)},
		{"names known", fmt.Sprintf("%d of %d functions", s.Names, s.Functions+len(s.Imports))},
		{"sections", sections(s)},
	} {
		o.line("%-13s %s", row[0], cell(row[1]))
	}
	for _, list := range []struct {
		name  string
		items []string
	}{{"imports", s.Imports}, {"exports", s.Exports}} {
		for _, item := range list.items {
			o.line("%-13s %s", list.name, cell(item))
		}
	}
	o.line("")
	return printList(o, s.Limits, []string{"LIMIT", "ASKED", "DEFAULT"}, func(l author.LimitAsked) []string {
		return []string{l.Name, l.Asked, l.Default}
	})
}

func pages(s author.Sheet) string {
	most := "the host's limit"
	if s.MaxPages >= 0 {
		most = fmt.Sprintf("%d", s.MaxPages)
	}
	return fmt.Sprintf("%d pages of 64 KiB at first, at most %s", s.MinPages, most)
}

func recursion(s author.Sheet) string {
	if len(s.Recursive) == 0 && s.ThroughTables == 0 {
		return "none"
	}
	return fmt.Sprintf("%d functions, and %d more if tables allow it", len(s.Recursive), s.ThroughTables)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func producers(s author.Sheet) string {
	var list []string
	for _, p := range s.Producers {
		list = append(list, strings.TrimSpace(p.Name+" "+p.Version))
	}
	return strings.Join(list, ", ")
}

func sections(s author.Sheet) string {
	var list []string
	for _, c := range s.Sections {
		list = append(list, fmt.Sprintf("%s (%d)", c.Name, c.Bytes))
	}
	return strings.Join(list, ", ")
}
