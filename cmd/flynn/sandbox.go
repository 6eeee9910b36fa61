package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox"
)

func sandboxCommand() *cli.Command {
	name := &cli.StringFlag{Name: "sandbox", Usage: "use [sandboxes.`NAME`] (default: [sandbox])"}
	return &cli.Command{
		Name:  "sandbox",
		Usage: "attack, explain and look after the sandboxes",
		Commands: []*cli.Command{
			verifySandboxCommand(name),
			copySandboxCommand(name),
			{Name: "list", Usage: "list this instance's containers", Action: listSandboxes},
			{
				Name: "exec", Usage: "run a command in a sandbox as the configuration has it", ArgsUsage: "COMMAND...",
				Description: "Runs the command line with /bin/sh in a container of its own and prints its output, then the verdict on stderr.\n" +
					"With --session it works in that session's workspace, otherwise in an empty one that is removed afterwards.\n" +
					"On a terminal the command gets one as well: flynn sandbox exec sh",
				Flags: []cli.Flag{
					name, &cli.StringFlag{Name: "session", Usage: "work in the workspace of session `ID`"},
					&cli.DurationFlag{Name: "timeout", Usage: "end it after `DURATION` (default: timeout_seconds)"},
					&cli.BoolFlag{Name: "terminal", Aliases: []string{"t"}, Usage: "give it a terminal (default: if this is one); --terminal=false for none"},
				},
				Action: execInSandbox,
			},
			rebuildSandboxCommand(name),
			{
				Name: "explain", Usage: "say where an agent's commands run, and why", ArgsUsage: "[AGENT...]",
				Flags:  []cli.Flag{&cli.StringFlag{Name: "session", Usage: "say what session `ID` has, and which agents' commands run in that"}},
				Action: explainSandboxes,
			},
			egressCommand(),
			{
				Name: "prune", Usage: "remove the containers that an earlier host has left, and images that no sandbox needs",
				Description: "Only what belongs to this store is touched, and only while no host is running on it. Containers with\n" +
					"background processes, which the next host would go on with, are removed as well.",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "volumes", Usage: "remove the volumes of its sandboxes too, with what is in them"},
				},
				Action: pruneSandboxes,
			},
		},
	}
}

// withSandboxes runs action on the configuration's sandboxes.
func withSandboxes(ctx context.Context, cmd *cli.Command, action func(s *host.Sandboxes, out *output) error) error {
	c, err := loadWhole(ctx, cmd) // programs in them may use credentials
	if err != nil {
		return err
	}
	s, err := host.OpenSandboxes(c)
	if err != nil {
		return err
	}
	defer s.Driver.Close()
	return action(s, newOutput(ctx, cmd))
}

// sandboxLog is where the sandboxes' own warnings go.
func sandboxLog(cmd *cli.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(cmd.Root().ErrWriter, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// container is one of the instance's containers.
type container struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Session string `json:"session"` // empty while it waits in the pool
	Sandbox string `json:"sandbox"`
	State   string `json:"state"`
	Image   string `json:"image"`
	Created string `json:"created"`
	Expires string `json:"expires"`
}

func containers(owned []sandbox.Owned) []container {
	list := []container{}
	for _, o := range owned {
		list = append(list, container{
			ID: o.ID, Name: strings.TrimPrefix(o.Name, "/"), Session: o.Labels[sandbox.LabelSession],
			Sandbox: o.Labels[sandbox.LabelSandbox], Expires: o.Labels[sandbox.LabelExpires],
			State: o.State, Image: o.Image, Created: o.Created.UTC().Format(time.RFC3339),
		})
	}
	return list
}

func showContainers(out *output, owned []sandbox.Owned) error {
	list := containers(owned)
	if out.asJSON {
		return out.json(list)
	}
	var rows [][]string
	for _, c := range list {
		rows = append(rows, []string{c.ID[:min(12, len(c.ID))], c.Name, cmp.Or(c.Session, "(pool)"), c.Sandbox, c.State, c.Image, c.Created, c.Expires})
	}
	return out.table([]string{"ID", "NAME", "SESSION", "SANDBOX", "STATE", "IMAGE", "CREATED", "EXPIRES"}, rows)
}

func listSandboxes(ctx context.Context, cmd *cli.Command) error {
	return withSandboxes(ctx, cmd, func(s *host.Sandboxes, out *output) error {
		owned, err := s.Driver.List(ctx, s.Instance)
		if err != nil {
			return err
		}
		return showContainers(out, owned)
	})
}

func pruneSandboxes(ctx context.Context, cmd *cli.Command) error {
	return withSandboxes(ctx, cmd, func(s *host.Sandboxes, out *output) error {
		removed, err := s.Prune(ctx, sandboxLog(cmd))
		if err == nil && cmd.Bool("volumes") {
			var volumes []sandbox.Owned
			volumes, err = s.PruneVolumes(ctx, sandboxLog(cmd))
			removed = append(removed, volumes...)
		}
		if err != nil || len(removed) == 0 && !out.asJSON {
			return err
		}
		return showContainers(out, removed)
	})
}

func explainSandboxes(ctx context.Context, cmd *cli.Command) error {
	return withSandboxes(ctx, cmd, func(s *host.Sandboxes, out *output) error {
		if session := cmd.String("session"); session != "" {
			return explainSession(ctx, s, out, session)
		}
		places, err := s.Explain(ctx)
		if err != nil {
			return err
		}
		if places, err = ofAgents(places, cmd.Args().Slice()); err != nil {
			return err
		}
		if out.asJSON {
			return out.json(places)
		}
		var rows [][]string
		for _, p := range places {
			rows = append(rows, []string{p.Agent, p.Door, p.Action, p.Where, p.Image, p.Strategy, p.Network, strings.Join(p.Reasons, "; ")})
		}
		return out.table([]string{"AGENT", "DOOR", "ACTION", "WHERE", "IMAGE", "STRATEGY", "NETWORK", "WHY"}, rows)
	})
}

// ofAgents keeps the places of the agents named; without names, all.
func ofAgents(places []host.Place, names []string) ([]host.Place, error) {
	if len(names) == 0 {
		return places, nil
	}
	var kept []host.Place
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

// endTimeout bounds the removal of what exec and verify have made.
const endTimeout = time.Minute

func execInSandbox(ctx context.Context, cmd *cli.Command) error {
	script := strings.Join(cmd.Args().Slice(), " ")
	if script == "" {
		return usagef("want a command: flynn sandbox exec [flags] COMMAND...")
	}
	return withSandboxes(ctx, cmd, func(s *host.Sandboxes, out *output) error {
		command := machine.Command{Script: script, Timeout: cmd.Duration("timeout")}
		if !out.asJSON {
			command.Progress = func(stream machine.Stream, p []byte) { _, _ = out.stream(stream).Write(p) }
		}
		ctx, stop := out.noticed(ctx)
		defer stop()
		r, err := runOnce(ctx, s, cmd, func(box *sandbox.Session) (machine.Result, error) {
			if wantsTerminal(cmd, out) {
				return converse(ctx, cmd, box, command)
			}
			return box.Exec(ctx, command)
		})
		if err != nil {
			return err
		}
		if out.asJSON {
			err = out.json(ran{r, string(r.Stdout), string(r.Stderr)})
		} else {
			fmt.Fprintln(out.err, "flynn:", verdictLine(r))
		}
		if err == nil && (r.ExitCode != 0 || r.TimedOut || r.Canceled) {
			err = reported{errors.New("the command failed")}
		}
		return err
	})
}

// ran is a verdict with its output as text.
type ran struct {
	machine.Result
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// stream is where a command's stream goes.
func (o *output) stream(s machine.Stream) io.Writer {
	if s == machine.Stderr {
		return o.err
	}
	return o.out
}

// runOnce runs a command in a container that lives no longer.
func runOnce(
	ctx context.Context, s *host.Sandboxes, cmd *cli.Command, run func(box *sandbox.Session) (machine.Result, error),
) (r machine.Result, err error) {
	name := cmd.String("sandbox")
	spec, err := s.Spec(name)
	if err != nil {
		return r, err
	}
	session := cmd.String("session")
	passing := session == ""
	if passing {
		session = "exec-" + rand.Text()[:12]
		defer func() { err = errors.Join(err, os.RemoveAll(sandbox.Workspace(s.Root, session))) }()
	} else if _, err := os.Stat(sandbox.Workspace(s.Root, session)); err != nil {
		return r, fmt.Errorf("session %q has no workspace: %w", session, err)
	}
	manager, err := s.Manager(sandboxLog(cmd))
	if err != nil {
		return r, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if passing {
			err = errors.Join(err, manager.Forget(ctx, session))
		}
		err = errors.Join(err, manager.DestroyAll(ctx))
	}()
	box, err := manager.Get(ctx, session, name, spec)
	if err != nil {
		return r, err
	}
	return run(box)
}

// verdictLine says in one line how a command ended.
func verdictLine(r machine.Result) string {
	words := []string{fmt.Sprintf("exit code %d", r.ExitCode)}
	if r.Signal != "" {
		words[0] = "ended by " + r.Signal
	}
	for _, c := range []struct {
		is   bool
		text string
	}{
		{r.TimedOut, "timed out"}, {r.Canceled, "cancelled"}, {r.OOM, "out of memory"}, {r.PidsHit, "pids limit reached"},
		{r.DiskHit, "disk limit reached"},
		{r.Dropped > 0, fmt.Sprintf("%d bytes of output dropped", r.Dropped)},
	} {
		if c.is {
			words = append(words, c.text)
		}
	}
	if r.Kill != nil {
		words = append(words, fmt.Sprintf("killed by rung %s in %v, %d survivors", r.Kill.Rung, r.Kill.Took.Round(time.Millisecond), r.Kill.Survivors))
	}
	return strings.Join(append(words, fmt.Sprintf("%v wall, %v CPU", r.Wall.Round(time.Millisecond), r.CPU.Round(time.Millisecond))), ", ")
}

// matching makes the filter of --run.
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
