package host

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/store"
)

// stage prepares a configuration beside the one in force. Turns that have begun keep theirs.
func (h *Host) stage(ctx context.Context, old, next *config.Config) (commit, rollback func(), err error) {
	g, err := h.current.Make(next)
	if err != nil {
		return nil, nil, err
	}
	enforce, forget, err := h.policies.Stage(ctx, configured.Live(next, h.log))
	if err != nil {
		return nil, nil, fmt.Errorf("stage policies: %w", err)
	}
	commit = func() {
		h.current.Exchange(g, enforce) // turns that have begun keep the old one, whose idle connections close by themselves
		h.runner.Regroup()
		h.runner.Readmit()
		h.budgets.SetZone(next.Budgets.Zone())
		h.fleet.Configure(next)
		h.setChannels(old, next)
		h.setTools(old, next)
		instances.Set(h.plugins, h.log, h.drivers, old.UsedDrivers(), next.UsedDrivers())
		h.schedules.Set(schedule.Entries(next))
		h.feed.Note(store.Configuration, "")
		h.parts.Tell()
	}
	return commit, forget, nil
}

// newAssembler returns the assembler of agents.
func (h *Host) newAssembler() *assemble.Assembler {
	return assemble.New(assemble.Config{
		Sandboxes: h.fleet, Log: h.log,
		Code: code.Config{
			Sandboxes: h.fleet, Media: h.files, Events: &h.events, Log: h.log,
			Attachments: code.Folder{Workspaces: h.fleet, Name: attachments.Dir},
		},
	})
}

// setTools starts and stops tool providers after a change of the configuration.
func (h *Host) setTools(old, next *config.Config) {
	instances.Set(h.plugins, h.log, h.tools, old.Tools, next.Tools)
	h.tools.Started(next)
}
