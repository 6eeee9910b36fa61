// Command dice-tools is a whole provider of tools: it rolls dice. Copy it to begin one.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/flynnhost/flynn/sdk/tool"
)

func main() { tool.Main(&dice{}) }

type dice struct {
	settings struct {
		MaxDice int `json:"max_dice"`
	}
}

func (d *dice) Describe() tool.Description {
	return tool.Description{Name: "dice-tools", Version: "0.1.0"}
}

func (d *dice) Configure(_ context.Context, c tool.Config) error {
	d.settings.MaxDice = 100
	return c.Decode(&d.settings)
}

func (d *dice) Tools(context.Context) ([]tool.Tool, error) {
	schema := fmt.Sprintf(`{"type": "object", "required": ["sides"], "additionalProperties": false, "properties": {
		"sides": {"type": "integer", "minimum": 2, "maximum": 1000},
		"dice": {"type": "integer", "minimum": 1, "maximum": %d}}}`, d.settings.MaxDice)
	return []tool.Tool{{
		Name: "roll", Description: "Rolls dice and adds them up. Use it whenever chance has to decide.",
		Schema: json.RawMessage(schema), Effect: tool.Read,
	}}, nil
}

func (d *dice) Call(_ context.Context, c *tool.Call) (tool.Result, error) {
	args := struct{ Sides, Dice int }{Dice: 1}
	if err := c.Decode(&args); err != nil || args.Sides < 1 { // the host has checked the schema; other callers get an explanation
		return tool.Failed(fmt.Sprintf("want sides and dice: %v", err)), nil
	}
	sum, rolls := 0, []int{}
	for range args.Dice {
		rolls = append(rolls, 1+rand.IntN(args.Sides))
		sum += rolls[len(rolls)-1]
	}
	return tool.Text(fmt.Sprintf("%d: %v", sum, rolls)), nil
}
