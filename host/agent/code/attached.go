package code

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Workspaces opens the workspaces of sessions; *fleet.Fleet implements it.
type Workspaces interface {
	// Visit opens a workspace until leave is called.
	Visit(workspaceKey message.WorkspaceKey) (m machine.Machine, leave func(), err error)
}

// Folder finds the attachments in a folder of each session's workspace.
type Folder struct {
	Workspaces Workspaces
	Name       string // of the folder
}

var _ Attachments = Folder{}

// Bounds of the attachments that a program gets. Package sandbox bounds the total of its files.
const (
	maxAttached      = 32
	maxAttachedBytes = 8 << 20
)

// Attached implements Attachments. It returns the latest files first.
func (f Folder) Attached(ctx context.Context, session message.SessionKey) (files map[string][]byte, left int, err error) {
	m, leave, err := f.Workspaces.Visit(session.Parse().Workspace())
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	infos, err := m.List(ctx, f.Name)
	if errors.Is(err, machine.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(infos, func(a, b machine.FileInfo) int { return b.Mtime.Compare(a.Mtime) })
	files = map[string][]byte{}
	room := int64(maxAttachedBytes)
	for _, info := range infos {
		if !info.Mode.IsRegular() || len(files) == maxAttached || info.Size > room {
			left++
			continue
		}
		data, size, err := m.ReadFile(ctx, path.Join(f.Name, info.Name), 0, room)
		if err != nil || size > int64(len(data)) {
			left++
			continue
		}
		room -= size
		files[info.Name] = data
	}
	return files, left, nil
}
