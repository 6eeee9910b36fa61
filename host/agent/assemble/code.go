package assemble

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/tool"
)

// withCode gives an agent of kind code the tool that runs its programs. Its model calls no other tool; only the programs do.
func (a *Assembler) withCode(made *agent.Agent, tools *tool.Registry, c *config.Config) error {
	from := c.Agents[made.Name].Code
	with := a.cfg.Code
	with.Languages = specs.Code(from, c.Sandbox)
	made.Registry = tools.Clone()
	if err := made.Registry.Register(code.New(with)); err != nil {
		return fmt.Errorf("agent_configs.%s: %w", made.Name, err)
	}
	made.Programs = &agent.Programs{
		Tool: code.Name, Languages: specs.CodeLanguages(from), HelperCalls: from.HelperCalls, Fenced: from.Fenced,
		Available: func(ctx context.Context) error { return a.cfg.Sandboxes.AvailableFor(ctx, with.Languages) },
	}
	made.System = strings.TrimLeft(made.System+"\n\n"+made.Programs.Prompt(made.Tools), "\n")
	made.Tools = made.Registry.ForModel(tool.NewSet(code.Name))
	return nil
}
