package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/policy/author"
)

func policyCommand() *cli.Command {
	c := &cli.Command{
		Name:     "policy",
		Category: groupExtend,
		Usage:    "list, install, explain and compare policies; flynn policy dev is for their authors",
		Commands: []*cli.Command{
			listPoliciesCommand(),
			{
				Name: "explain", Usage: "show the facts that one decision depends on", ArgsUsage: "[DIR]", Action: explainPolicy,
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "case", Usage: "explain the case called `NAME`"},
					&cli.StringFlag{Name: "frame", Usage: "explain the answer to the frame in `FILE`"},
					&cli.Int64Flag{Name: "decision", Usage: "explain the logged decision `ID`, by the module in force"},
					&cli.StringFlag{Name: "candidate", Usage: "with --decision: use the module in `FILE`"},
				},
			},
			policyHistoryCommand(),
			rollbackPolicyCommand(),
			lintPoliciesCommand(),
			replayPolicyCommand(),
			shadowPolicyCommand(),
		},
	}
	c.Commands = append(c.Commands, distributionCommands()...)
	c.Commands = append(c.Commands, &cli.Command{
		Name: "dev", Usage: "write, build, test, measure, sign and pack a policy", Commands: policyAuthorCommands(),
	})
	return withOldNames(c, policyAuthorCommands())
}

// policyAuthorCommands returns the commands for authors of policies.
func policyAuthorCommands() []*cli.Command {
	return append([]*cli.Command{
		{
			Name: "new", Usage: "write a skeleton policy into a new folder", ArgsUsage: "DIR", Action: newPolicy,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "lang", Usage: "write it in `LANGUAGE`: " + strings.Join(author.Languages(), ", "), Value: "go"},
				&cli.StringFlag{Name: "kind", Usage: "write a policy of `KIND`: route or tool", Value: "route"},
			},
		},
		{Name: "build", Usage: "compile a policy's module", ArgsUsage: "[DIR...]", Action: buildPolicies},
		{
			Name: "test", Usage: "run a policy's test cases", ArgsUsage: "[DIR...]", Action: testPolicies,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "run", Usage: "only the cases whose name matches the `REGEXP`"},
				&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "list passing cases too"},
				&cli.BoolFlag{Name: "update", Usage: "write the traces of the cases to cases/*.golden, which later runs are compared with"},
				&cli.BoolFlag{Name: "cover", Usage: "print the coverage of the source by the cases"},
				&cli.StringFlag{Name: "cover-out", Usage: "write the coverage to `FILE` in LCOV format"},
			},
		},
		benchPolicyCommand(),
		watchPolicyCommand(),
		fuzzCommand(),
		inspectCommand(),
	}, signingCommands()...)
}

func newPolicy(ctx context.Context, cmd *cli.Command) error {
	dir := cmd.Args().First()
	if err := author.New(dir, cmd.String("lang"), cmd.String("kind")); err != nil {
		return err
	}
	newOutput(ctx, cmd).done("%s is a policy that works: change it, then run flynn policy dev build %s && flynn policy dev test %s", dir, dir, dir)
	return nil
}

// policyDirs returns the folders on the command line, or this one.
func policyDirs(cmd *cli.Command) []string {
	if cmd.Args().Len() == 0 {
		return []string{"."}
	}
	return cmd.Args().Slice()
}

func buildPolicies(ctx context.Context, cmd *cli.Command) error {
	o := newOutput(ctx, cmd)
	var built []author.Artifact
	for _, dir := range policyDirs(cmd) {
		a, err := author.Build(ctx, dir)
		if err != nil {
			return err
		}
		built = append(built, a)
	}
	if o.asJSON {
		return o.json(built)
	}
	for i, a := range built {
		o.done("%s: %d bytes in %v. Run its test cases with: flynn policy dev test %s", a.Path, a.Bytes, a.Took.Round(time.Millisecond), policyDirs(cmd)[i])
	}
	return nil
}

// testPolicies tests every folder before it reports a failure, so that one run shows every error.
func testPolicies(ctx context.Context, cmd *cli.Command) error {
	only, err := regexp.Compile(cmd.String("run"))
	if err != nil {
		return usagef("--run: %w", err)
	}
	o := newOutput(ctx, cmd)
	if cmd.Bool("update") {
		for _, dir := range policyDirs(cmd) {
			if _, err := author.UpdateTraces(ctx, dir); err != nil {
				return err
			}
		}
	}
	var reports []author.Report
	failed := 0
	for _, dir := range policyDirs(cmd) {
		r, err := testPolicy(ctx, cmd, dir, only)
		if err != nil {
			return err
		}
		reports = append(reports, r)
		failed += r.Failed
	}
	if err := printReports(o, reports, cmd.Bool("verbose")); err != nil {
		return err
	}
	if err := writeCoverage(cmd, reports); err != nil {
		return err
	}
	if failed > 0 {
		return reported{errors.New("cases failed")}
	}
	return nil
}

func printReports(o *output, reports []author.Report, verbose bool) error {
	if o.asJSON {
		return o.json(reports)
	}
	for _, r := range reports {
		for _, c := range r.Cases {
			if verbose || !c.Passed {
				printCase(o, c)
			}
		}
		o.line("%s: %d passed, %d failed, %v", r.Policy, r.Passed, r.Failed, r.Took.Round(time.Millisecond))
		printCoverage(o, r.Coverage, verbose)
	}
	return nil
}

func printCase(o *output, c author.CaseResult) {
	word := "ok  "
	if !c.Passed {
		word = "FAIL"
	}
	o.line("%s  %s  %q  fuel %d  %v", word, c.File, c.Name, c.Outcome.Fuel, c.Outcome.Took)
	for _, d := range c.Diffs {
		o.line("      %s", d)
	}
}

func explainPolicy(ctx context.Context, cmd *cli.Command) error {
	x, err := explainWhat(ctx, cmd)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(x)
	}
	return printExplanation(o, x)
}

func explainWhat(ctx context.Context, cmd *cli.Command) (author.Explanation, error) {
	name, file := cmd.String("case"), cmd.String("frame")
	if cmd.IsSet("decision") && name == "" && file == "" && cmd.Args().Len() == 0 {
		return explainDecision(ctx, cmd)
	}
	if (name == "") == (file == "") {
		return author.Explanation{}, usagef("name one folder, and either --case NAME or --frame FILE; or --decision ID alone")
	}
	dir := policyDirs(cmd)[0]
	if name != "" {
		return author.ExplainCase(ctx, dir, name)
	}
	frame, err := os.ReadFile(file)
	if err != nil {
		return author.Explanation{}, err
	}
	x, err := author.ExplainFrame(ctx, dir, frame)
	if err != nil {
		return x, fmt.Errorf("%s: %w", file, err)
	}
	return x, nil
}

func printExplanation(o *output, x author.Explanation) error {
	err := printList(o, x.Facts, []string{"FACT", "USE", "VALUE"}, func(f author.FactUse) []string {
		return []string{f.Name, string(f.Use), f.Value}
	})
	if err == nil && len(x.Calls) > 0 {
		o.line("")
		err = printList(o, x.Calls, []string{"CALL", "ARGUMENTS", "RETURN", "DATA"}, func(c author.CallMade) []string {
			return []string{c.Name, c.Args, number(int(c.Return)), c.Data}
		})
	}
	if err != nil {
		return err
	}
	o.line("")
	o.line("%s", x.Outcome)
	printWas(o, x.Was)
	return nil
}
