package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/compare"
)

func replayPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "replay recorded decisions, and show what would change", Action: replayPolicies,
		Description: "Reads the decision log, whether a host runs or not. With --candidate it shows which answers that module would change.\n" +
			"Without it, the modules in force decide again: answer, host calls and fuel have to be the same, and a difference is a fault of\n" +
			"the policy or of this machine. Exit code 4 with --fail-on-change or --max-change.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "candidate", Usage: "use the module in `FILE`, with the policy's data and limits"},
			&cli.StringFlag{Name: "policy", Usage: "only decisions of the policy `NAME`"},
			sinceFlag("only decisions after `TIME`"),
			&cli.StringFlag{Name: "until", Usage: "only decisions before `TIME`"},
			&cli.StringMapFlag{Name: "data", Usage: "set the policy's data `KEY=VALUE`"},
			&cli.BoolFlag{Name: "fail-on-change", Usage: "exit with code 4 if any answer changes"},
			&cli.StringFlag{Name: "max-change", Usage: "exit with code 4 if more than this `SHARE` changes, such as 1%"},
			&cli.IntFlag{Name: "examples", Usage: "show `N` decisions of each group", Value: 3},
		},
	}
}

func replayPolicies(ctx context.Context, cmd *cli.Command) error {
	now := time.Now()
	since, err := when("since", cmd.String("since"), now)
	if err != nil {
		return err
	}
	until, err := when("until", cmd.String("until"), now)
	if err != nil {
		return err
	}
	if until.IsZero() {
		until = now // a running host keeps writing
	}
	most, err := maxChange(cmd)
	if err != nil {
		return err
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	reports, err := admin.ReplayLog(ctx, c, decisionsOf{c}, admin.Replay{
		Candidate: cmd.String("candidate"), Policy: cmd.String("policy"), Since: since, Until: until, Data: cmd.StringMap("data"),
		Examples: examplesOf(cmd),
	})
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		err = o.json(reports)
	} else {
		err = printComparisons(o, reports)
	}
	for i := range reports {
		if err == nil && most >= 0 && reports[i].Share() > most {
			err = reported{errChanged}
		}
	}
	return err
}

// examplesOf translates --examples for package compare, in which 0 is the default and a negative number none.
func examplesOf(cmd *cli.Command) int {
	if n := cmd.Int("examples"); n > 0 {
		return n
	}
	return -1
}

// maxChange returns the share of changes that is allowed, or -1 for any.
func maxChange(cmd *cli.Command) (float64, error) {
	text := cmd.String("max-change")
	switch {
	case text == "" && cmd.Bool("fail-on-change"):
		return 0, nil
	case text == "":
		return -1, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, usagef("--max-change: %q is not a share; write 1%% or 0.01", text)
	}
	if cmd.Bool("fail-on-change") {
		return 0, nil
	}
	return share, nil
}

func printComparisons(o *output, reports []compare.Report) error {
	for i := range reports {
		if i > 0 {
			o.line("")
		}
		if err := printComparison(o, &reports[i]); err != nil {
			return err
		}
	}
	return nil
}

// printComparison prints one report; replay and shadow share it.
func printComparison(o *output, r *compare.Report) error {
	word := "changed"
	if r.Exact {
		word = "drifted"
	}
	o.line("%s: %d of %d decisions %s (%s), %d of them looser", cell(r.Policy), r.Changed, r.Compared, word, percentOf(r.Share()), r.Looser)
	if r.Reasons > 0 {
		o.line("%d have the same answer for another reason", r.Reasons)
	}
	if r.Suspects > 0 {
		o.line("%d have the same answer at another fuel: the policy is warm, and hidden state is suspected", r.Suspects)
	}
	for _, s := range r.Skipped {
		o.line("%d not compared: %s", s.Count, cell(s.Why))
	}
	if fuel := r.FuelIs; fuel.Total > 0 && !r.Exact && r.Compared > 0 {
		o.line("fuel: %d each, was %d; at most %d, was %d", fuel.Total/r.Compared, r.FuelWas.Total/r.Compared, fuel.Max, r.FuelWas.Max)
	}
	if len(r.Groups) == 0 {
		return nil
	}
	o.line("")
	return printGroups(o, r.Groups)
}

func printGroups(o *output, groups []compare.Group) error {
	var rows, examples [][]string
	for i, g := range groups {
		n := strconv.Itoa(i + 1)
		rows = append(rows, []string{
			n, strconv.FormatInt(g.Count, 10), percentOf(g.Share), g.Kind, answerAndWhy(g.Was, g.WasWhy), answerAndWhy(g.Is, g.IsWhy), effectOf(&g), g.Detail,
		})
		for _, e := range g.Examples {
			id := ""
			if e.ID != 0 {
				id = strconv.FormatInt(e.ID, 10)
			}
			examples = append(examples, []string{n, id, e.At.Local().Format(time.DateTime), e.Channel, e.Sender, e.Tool})
		}
	}
	if err := o.table([]string{"GROUP", "COUNT", "SHARE", "KIND", "WAS", "WOULD BE", "CHANGE", "DETAIL"}, rows); err != nil || len(examples) == 0 {
		return err
	}
	o.line("")
	return o.table([]string{"GROUP", "DECISION", "TIME", "CHANNEL", "SENDER", "TOOL"}, examples)
}

func answerAndWhy(answer, why string) string {
	if why == "" {
		return answer
	}
	return answer + " (" + why + ")"
}

// effectOf returns the direction of a changed answer, or what else differs if the answer is the same.
func effectOf(g *compare.Group) string {
	if g.Change == compare.KindAnswer {
		return string(g.Effect)
	}
	return string(g.Change)
}

func percentOf(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }

func explainDecision(ctx context.Context, cmd *cli.Command) (author.Explanation, error) {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return author.Explanation{}, err
	}
	record, source, err := admin.RecordedDecision(ctx, c, decisionsOf{c}, cmd.Int64("decision"), cmd.String("candidate"))
	if err != nil {
		return author.Explanation{}, err
	}
	return author.ExplainRecord(ctx, source, record)
}

// printWas prints the recorded answer, if there is one.
func printWas(o *output, was *author.Was) {
	if was == nil {
		return
	}
	o.line("was: %s", was.Outcome)
	if !was.SameModule {
		o.line("by another module, data or limits: digest %s, file %s", was.Digest, cell(was.File))
	}
}
