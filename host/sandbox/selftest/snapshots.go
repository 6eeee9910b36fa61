package selftest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
)

// snapshotRow is about bringing files back, which is no attack: what succeeds in the control is the loss of a file.
const snapshotRow = "snapshots"

// session is the key of the attacked one's workspace, also in a weak container.
const session message.WorkspaceKey = "subject"

// restored is the file that is brought back.
const restored = "restored"

func snapshotProbes() []Probe {
	return []Probe{{
		Name: "snapshots/restored", Row: snapshotRow, Why: "an undo or a fork has other bytes than the session had",
		Setting: "use an engine that mounts folders of this machine: without that, files are transferred for an undo and for a fork",
		Feature: driver.Snapshots, Run: restores,
		Control: func(s *Subject) Control {
			return Control{Weakness: docker.Weakness{Mount: driver.Mount{Source: s.Outside + "/decoy", Target: s.Spec.WorkspaceDir + "/" + restored}}, Single: true}
		},
	}}
}

// restores keeps what a command has written, has another one overwrite it, brings it back on the host, and reads it inside.
func restores(ctx context.Context, s *Subject) (f Finding, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(s.Dir)), "kept-")
	if err != nil {
		return Finding{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kept := snapshot.New(snapshot.Config{
		Dir: dir, Workspaces: filepath.Dir(s.Dir), Limit: func() int64 { return 1 << 30 }, Log: slog.New(slog.DiscardHandler),
	})
	before := fmt.Sprintf("before %x", rand.Uint64())
	if _, err := output(ctx, s.Target, "printf '"+before+"' >"+restored); err != nil {
		return Finding{}, err
	}
	kept.Take(ctx, session, "turn")
	if _, err := output(ctx, s.Target, "printf after >"+restored); err != nil {
		return Finding{}, err
	}
	kept.Settle(ctx, session, "turn")
	plan, err := kept.Plan(ctx, session, 1)
	if err != nil {
		return breached("nothing was kept: %v", err), nil
	}
	undone, err := kept.Undo(ctx, session, snapshot.Request{Code: plan.Code})
	if err != nil {
		return breached("it was kept and is not brought back: %v", err), nil
	}
	if err := kept.Recorded(undone); err != nil {
		return Finding{}, err
	}
	now, err := output(ctx, s.Target, "cat "+restored)
	if err != nil || now != before {
		return breached("brought back was %.60q, and a command reads %.60q", before, now), err
	}
	return held("%d bytes are back", len(before)), nil
}
