package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// sessionSandboxes is the JSON of flynn sandbox explain --session.
type sessionSandboxes struct {
	Session    message.WorkspaceKey  `json:"session"`
	Workspace  string                `json:"workspace"` // empty if there is none
	Containers []gateway.Container   `json:"containers"`
	Places     []sandboxes.Placement `json:"places"` // of the agents whose commands run in one of the containers
}

// explainSession prints a session's workspace and containers, running or not, and the settings behind them.
func explainSession(ctx context.Context, c *config.Config, s *sandboxes.Admin, out *output, session message.WorkspaceKey) error {
	list, err := containersOf(ctx, c)
	if err != nil {
		return err
	}
	e := sessionSandboxes{Session: session, Containers: []gateway.Container{}, Places: []sandboxes.Placement{}}
	names := map[string]bool{}
	for _, c := range list {
		if c.Session == session {
			e.Containers = append(e.Containers, c)
			names[c.Sandbox] = true
		}
	}
	if dir := workspace.Path(s.Root, session); exists(dir) {
		e.Workspace = dir
	}
	if e.Workspace == "" && len(e.Containers) == 0 {
		return fmt.Errorf("session %q has neither a workspace nor a container: see flynn sandbox list", session)
	}
	places, err := s.Explain(ctx)
	if err != nil {
		return err
	}
	for _, p := range places {
		if p.Sandboxed && p.Language == "" && names[p.Sandbox] { // programs have containers of their own
			e.Places = append(e.Places, p)
		}
	}
	if out.asJSON {
		return out.json(e)
	}
	return showSession(out, e)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func showSession(out *output, e sessionSandboxes) error {
	out.line("workspace: %s", cell(e.Workspace))
	if len(e.Containers) == 0 {
		out.line("container: none; the next command gets one")
	}
	for _, c := range e.Containers {
		out.line("container: %s, %s, of image %s, since %s", c.Name, c.State, c.Image, c.Created)
	}
	for _, p := range e.Places {
		out.line("agent %s (%s): network %s, disk %s, engine %s: %s", p.Agent, p.Door, p.Network, p.Disk, p.Engine, strings.Join(p.Reasons, "; "))
	}
	return nil
}
