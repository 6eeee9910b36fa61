package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func rebuildSandboxCommand(name cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "rebuild", Usage: "rebuild a sandbox's image",
		Description: "Packages are installed again and every step of a Dockerfile is done again. The image before it is removed unless a\n" +
			"container needs it. Sandboxes that run keep theirs; the next one gets the new image.",
		Flags:  []cli.Flag{name},
		Action: rebuildSandbox,
	}
}

func rebuildSandbox(ctx context.Context, cmd *cli.Command) error {
	return besideSandboxes(ctx, cmd, func(ctx context.Context, s *sandboxes.Admin, out *output) error {
		ctx, stop := out.noticed(ctx)
		defer stop()
		made, err := s.Rebuild(ctx, cmd.String("sandbox"), sandboxLog(cmd))
		if err != nil {
			return err
		}
		if out.asJSON {
			return out.json(made)
		}
		return out.table([]string{"SANDBOX", "STRATEGY", "IMAGE"}, [][]string{{made.Sandbox, made.Strategy, made.Image}})
	})
}

// noticed has everything that keeps the person waiting printed to stderr, at most a line a second.
func (o *output) noticed(ctx context.Context) (_ context.Context, stop func()) {
	tell, stop := machine.Throttle(time.Second, func(line string) { fmt.Fprintln(o.err, "flynn:", cell(line)) })
	return machine.WithNotice(ctx, tell), stop
}
