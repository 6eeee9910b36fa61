package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/cover"
)

// testPolicy runs the test cases, with coverage if a flag asks for it.
func testPolicy(ctx context.Context, cmd *cli.Command, dir string, only *regexp.Regexp) (author.Report, error) {
	if cmd.Bool("cover") || cmd.String("cover-out") != "" {
		return author.TestCovered(ctx, dir, only)
	}
	return author.Test(ctx, dir, only)
}

// printCoverage prints the share of the code that ran and every line that did not run; verbose adds the functions.
func printCoverage(o *output, r *cover.Report, verbose bool) {
	if r == nil {
		return
	}
	o.line("coverage: %.1f%% of %d blocks%s; %.1f%% of the module's %d", r.Percent, r.Blocks, ofLines(r), r.Module.Percent, r.Module.Blocks)
	if r.Note != "" {
		o.line("      %s", r.Note)
	}
	for _, f := range r.Files {
		o.line("      %5.1f%%  %s", f.Percent, f.Name)
	}
	if verbose {
		for _, f := range r.Functions {
			o.line("      %5.1f%%  %s, %d calls", f.Percent, cell(f.Name), f.Calls)
		}
	}
	nameless := 0
	for _, p := range r.Uncovered {
		switch {
		case p.Nameless:
			nameless++
		case p.Covered == 0:
			o.line("not run: %s", cell(p.String()))
		}
	}
	for _, p := range r.Uncovered {
		if p.Covered > 0 && !p.Nameless {
			o.line("in part: %s", cell(p.String()))
		}
	}
	if nameless > 0 {
		o.line("not run, or in part: %d functions that the module has no names for (--json lists them)", nameless)
	}
}

func ofLines(r *cover.Report) string {
	if r.Lines == nil {
		return ""
	}
	return fmt.Sprintf(", %.1f%% of %d lines", r.Lines.Percent, r.Lines.Blocks)
}

// writeCoverage writes the profiles of all policies to one file.
func writeCoverage(cmd *cli.Command, reports []author.Report) (err error) {
	path := cmd.String("cover-out")
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for i, dir := range policyDirs(cmd) {
		if err := reports[i].WriteCoverage(f, dir); err != nil {
			return err
		}
	}
	return nil
}
