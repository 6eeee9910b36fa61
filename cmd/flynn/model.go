package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/model/prove"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func modelCommand() *cli.Command {
	return &cli.Command{
		Name: "model", Category: groupExtend,
		Usage: "choose, list and test the models of agents",
		Commands: []*cli.Command{
			{
				Name: "add", ArgsUsage: "TIER", Usage: "choose the model of a tier: default, fast, complex or local",
				Description: "Asks what the flags do not say, has the model answer one word, and writes [models.TIER]. An API key goes to a file of its own.\n" +
					"The other keys of a tier that is there already stay as they are.",
				Flags:  append(modelFlags(), plainFlag(), noCheckFlag(), dryRunFlag()),
				Action: addModel,
			},
			{Name: "list", Usage: "list the tiers with their models", Action: withConfig(listModels)},
			{
				Name: "test", ArgsUsage: "TIER", Usage: "have the model of a tier answer one word",
				Description: "The call costs a few tokens. A failure is explained: a wrong key, no credit, an unknown model, nothing at the address.",
				Action:      withConfig(testModel),
			},
		},
	}
}

func addModel(ctx context.Context, cmd *cli.Command) error {
	tier := cmd.Args().First()
	if tiers := []string{"default", "fast", "complex", "local"}; !slices.Contains(tiers, tier) {
		return usagef("no tier %q: use one of %s", tier, strings.Join(tiers, ", "))
	}
	f, err := openConfig(ctx, cmd)
	if err != nil {
		return err
	}
	a := setup.Answers{NoCheck: cmd.Bool("no-check")}
	modelAnswers(cmd, &a.Model)
	s := newSetup(ctx, cmd, f.Path(), askerFor(ctx, cmd, cmd.Bool("plain")))
	s.Places = setup.UsualPlaces(getenvOf(ctx))
	defer func() { _ = s.Undo() }()
	m, err := s.AddModel(ctx, f, tier, a)
	if err != nil {
		return interruptedBy(ctx, err)
	}
	f.IfRefused(s.Undo)
	if err := saveConfig(ctx, cmd, f, fmt.Sprintf("Tier %s is now %s.", tier, m)); err != nil || cmd.Bool("dry-run") {
		return err
	}
	s.Done()
	return nil
}

// modelRow is a line of flynn model list.
type modelRow struct {
	Tier      string   `json:"tier"`
	Provider  string   `json:"provider"`
	Model     string   `json:"model,omitempty"`
	BaseURL   string   `json:"base_url,omitempty"`
	Key       string   `json:"key"` // where it comes from
	Fallbacks []string `json:"fallbacks,omitempty"`
	State     string   `json:"state"`
}

func listModels(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	var status gateway.Status
	if err := client.Get(ctx, c, "/api/v1/status", &status); err != nil && !isNotRunning(err) {
		return err
	}
	var rows []modelRow
	for _, tier := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[tier]
		row := modelRow{Tier: tier, Provider: m.Provider, Model: m.Model, BaseURL: m.BaseURL, Fallbacks: m.Fallbacks, Key: m.KeySource(), State: "not running"}
		for _, s := range status.Models {
			if s.Tier == tier {
				row.State = s.State
				if s.State == "closed" { // as of a circuit breaker
					row.State = "ok"
				}
			}
		}
		rows = append(rows, row)
	}
	return printList(newOutput(ctx, cmd), rows, []string{"TIER", "PROVIDER", "MODEL", "ADDRESS", "KEY", "FALLBACKS", "STATE"}, func(r modelRow) []string {
		return []string{r.Tier, r.Provider, r.Model, r.BaseURL, r.Key, strings.Join(r.Fallbacks, " "), r.State}
	})
}

func testModel(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	tier := cmd.Args().First()
	if err := knownName("model", tier, slices.Collect(maps.Keys(c.Models))); err != nil {
		return err
	}
	m := c.Models[tier]
	proof, err := prove.Model(ctx, m)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("tier %s does not work: %s", tier, prove.Explain(m, err))
	}
	return newOutput(ctx, cmd).result(proof, "Tier %s works: %s answered %q in %v, for %d tokens.", tier, cell(m.Title()), proof.Text,
		proof.Took.Round(time.Millisecond), proof.Tokens)
}

func isNotRunning(err error) bool { return errors.Is(err, client.ErrNotRunning) }
