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
		Description: "Installs packages again and runs every step of a Dockerfile again. The old image is removed unless a container needs it.\n" +
			"Running sandboxes keep theirs; the next one gets the new image.",
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

// noticed returns a context in which slow steps report their progress to stderr, at most a line a second.
func (o *output) noticed(ctx context.Context) (_ context.Context, stop func()) {
	tell, stop := machine.Throttle(time.Second, func(line string) { fmt.Fprintln(o.err, "flynn:", cell(line)) })
	return machine.WithNotice(ctx, tell), stop
}
