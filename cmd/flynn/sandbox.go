package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

func sandboxCommand() *cli.Command {
	name := &cli.StringFlag{Name: "sandbox", Usage: "use [sandboxes.`NAME`] (default: [sandbox])"}
	return &cli.Command{
		Name: "sandbox", Category: groupOperate,
		Usage: "test, explain and manage sandboxes",
		Commands: []*cli.Command{
			selftestCommand(name),
			renamed("verify", selftestCommand(name), "sandbox"),
			copySandboxCommand(name),
			{Name: "list", Usage: "list this instance's containers", Action: withConfig(listSandboxes)},
			execSandboxCommand(name),
			rebuildSandboxCommand(name),
			{
				Name: "explain", Usage: "show where an agent's commands run, and why", ArgsUsage: "[AGENT...]",
				Flags:  []cli.Flag{&cli.StringFlag{Name: "session", Usage: "show the sandboxes of session `ID`, and the agents whose commands run there"}},
				Action: withConfig(explainSandboxes),
			},
			previewCommand(name),
			egressCommand(),
			{
				Name: "prune", Usage: "remove containers left by an earlier host, images that no sandbox needs, and snapshots of deleted conversations",
				Description: "Removes only what belongs to this store, and only while no host is running on it. Containers with\n" +
					"background processes, which the next host would keep, are removed as well.",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "volumes", Usage: "also remove the volumes of its sandboxes, with their content"},
					&cli.BoolFlag{Name: "snapshots", Usage: "also remove what /undo needs of conversations that are still there"},
				},
				Action: pruneSandboxes,
			},
		},
	}
}

type sandboxAction func(ctx context.Context, s *sandboxes.Admin, out *output) error

// withSandboxes runs action on the configuration's sandboxes, with the secrets that programs in them may use.
func withSandboxes(ctx context.Context, cmd *cli.Command, action sandboxAction) error {
	c, err := loadWhole(ctx, cmd)
	if err != nil {
		return err
	}
	return onSandboxes(ctx, cmd, c, action)
}

// besideSandboxes is like withSandboxes for actions that run no program in a sandbox: they need no secrets, unless a plugin makes the sandboxes.
func besideSandboxes(ctx context.Context, cmd *cli.Command, action sandboxAction) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	if c.Sandbox.Driver() != "" {
		return withSandboxes(ctx, cmd, action)
	}
	return onSandboxes(ctx, cmd, c, action)
}

func onSandboxes(ctx context.Context, cmd *cli.Command, c *config.Config, action sandboxAction) error {
	s, err := sandboxes.Open(ctx, c, pluginLauncher())
	if err != nil {
		return err
	}
	defer s.Driver.Close()
	out := newOutput(ctx, cmd)
	ctx, stop := attended(ctx, out)
	defer stop()
	return action(ctx, s, out)
}

// sandboxLog prints the warnings of the sandboxes' code.
func sandboxLog(cmd *cli.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(cmd.Root().ErrWriter, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// containersOf returns the containers of the running host or, while none runs, those of its configuration.
func containersOf(ctx context.Context, c *config.Config) ([]gateway.Container, error) {
	return askOrRead(ctx, c, http.MethodGet, "/api/v1/sandboxes/containers", nil, func() ([]gateway.Container, error) {
		s, err := sandboxes.Open(ctx, c, pluginLauncher())
		if err != nil {
			return nil, err
		}
		defer s.Driver.Close()
		owned, err := s.Containers(ctx)
		return backend.Containers(owned), err
	})
}

func showContainers(out *output, list []gateway.Container) error {
	header := []string{"ID", "NAME", "SESSION", "SANDBOX", "STATE", "IMAGE", "CREATED", "EXPIRES"}
	return printListOr(out, list, "no containers: the first command of an agent with a sandbox makes one; flynn sandbox explain shows which have one", header, func(c gateway.Container) []string {
		return []string{short(c.ID), c.Name, cmp.Or(string(c.Session), "(pool)"), c.Sandbox, c.State, c.Image, c.Created, c.Expires}
	})
}

func listSandboxes(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	out := newOutput(ctx, cmd)
	ctx, stop := attended(ctx, out)
	defer stop()
	list, err := containersOf(ctx, c)
	if err != nil {
		return err
	}
	return showContainers(out, list)
}

func pruneSandboxes(ctx context.Context, cmd *cli.Command) error {
	return besideSandboxes(ctx, cmd, func(ctx context.Context, s *sandboxes.Admin, out *output) error {
		gone, images, err := s.Prune(ctx, sandboxLog(cmd))
		removed := append(prunedOf("container", gone), prunedOf("image", images)...)
		if err == nil {
			err = selftest.Sweep(ctx, s.Driver, s.Root)
		}
		if err == nil && cmd.Bool("volumes") {
			var volumes []driver.Owned
			volumes, err = s.PruneVolumes(ctx, sandboxLog(cmd))
			removed = append(removed, prunedOf("volume", volumes)...)
		}
		if err == nil {
			var sessions []message.WorkspaceKey
			sessions, err = s.PruneSnapshots(ctx, sandboxLog(cmd), cmd.Bool("snapshots"))
			for _, session := range sessions {
				removed = append(removed, pruned{Kind: "snapshots", Session: string(session)})
			}
		}
		if err != nil || len(removed) == 0 && !out.asJSON {
			return err
		}
		return showPruned(out, removed)
	})
}

// pruned is something that was removed.
type pruned struct {
	Kind    string `json:"kind"` // container, image, volume or snapshots
	ID      string `json:"id"`
	Name    string `json:"name"`
	Session string `json:"session"` // empty if it belonged to no session
	Sandbox string `json:"sandbox"`
}

func prunedOf(kind string, owned []driver.Owned) []pruned {
	list := []pruned{}
	for _, o := range owned {
		list = append(list, pruned{kind, o.ID, strings.TrimPrefix(o.Name, "/"), o.Labels[driver.LabelSession], o.Labels[driver.LabelSandbox]})
	}
	return list
}

func showPruned(out *output, list []pruned) error {
	return printList(out, list, []string{"KIND", "ID", "NAME", "SESSION", "SANDBOX"}, func(p pruned) []string {
		return []string{p.Kind, short(strings.TrimPrefix(p.ID, "sha256:")), p.Name, p.Session, p.Sandbox}
	})
}

func explainSandboxes(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	return onSandboxes(ctx, cmd, c, func(ctx context.Context, s *sandboxes.Admin, out *output) error {
		if session := message.WorkspaceKey(cmd.String("session")); session != "" {
			return explainSession(ctx, c, s, out, session)
		}
		places, err := s.Explain(ctx)
		if err != nil {
			return err
		}
		if places, err = ofAgents(places, cmd.Args().Slice()); err != nil {
			return err
		}
		header := []string{"AGENT", "FRONTEND", "ACTION", "WHERE", "IMAGE", "STRATEGY", "NETWORK", "DISK", "WHY"}
		return printList(out, places, header, func(p sandboxes.Placement) []string {
			return []string{p.Agent, p.Door, p.Action, p.Where, p.Image, p.Strategy, p.Network, p.Disk, strings.Join(p.Reasons, "; ")}
		})
	})
}

// ofAgents keeps the entries of the named agents; without names, all.
func ofAgents(places []sandboxes.Placement, names []string) ([]sandboxes.Placement, error) {
	if len(names) == 0 {
		return places, nil
	}
	var kept []sandboxes.Placement
	for _, name := range names {
		before := len(kept)
		for _, p := range places {
			if p.Agent == name {
				kept = append(kept, p)
			}
		}
		if len(kept) == before {
			return nil, fmt.Errorf("no agent %q: see [agent_configs] in the configuration", name)
		}
	}
	return kept, nil
}

// matching returns the filter of --run.
func matching(pattern string) (func(string) bool, error) {
	if pattern == "" {
		return nil, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, usagef("--run: %v", err)
	}
	return re.MatchString, nil
}
