package fleet

import (
	"path/filepath"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Folders are the folders on the host in which a store's sessions have files.
type Folders struct {
	Workspaces string // a folder for each session, shared by the host and its sandbox
	Native     string // records of native sandboxes
	engine     string // files for the container engine
	images     string // unpacked archives of images for native sandboxes
	homes      string // a HOME for each session's commands on the host; no tool, sandbox or mount reaches it
	snapshots  string // what package snapshot keeps; the same holds for it
}

// FoldersOf returns the folders of a store. They lie in the store's own folder, so mount rules keep sandboxes out of both.
func FoldersOf(store string) Folders {
	return Folders{
		Workspaces: filepath.Join(store, "workspaces"), Native: filepath.Join(store, "sandboxes"), engine: filepath.Join(store, "engine"),
		images: filepath.Join(store, "images"),
		homes:  filepath.Join(store, "homes"), snapshots: filepath.Join(store, "snapshots"),
	}
}

// Size returns the disk usage of a session's folders in bytes.
func (f Folders) Size(session message.WorkspaceKey) int64 {
	return quota.Tree(workspace.Path(f.Workspaces, session)) + quota.Tree(workspace.Path(f.homes, session))
}

// SnapshotSize returns the disk usage of a session's snapshots in bytes.
func (f Folders) SnapshotSize(session message.WorkspaceKey) int64 {
	return quota.Tree(workspace.Path(f.snapshots, session))
}

// RemoveHome removes what a session's commands on the host have stored outside of its workspace.
func (f Folders) RemoveHome(session message.WorkspaceKey) error {
	return removeall.Folder(workspace.Path(f.homes, session))
}

// Holdings counts what sessions hold: bytes on the disk, containers and background processes. The caller adds the sessions' owners and the
// media.
func (f *Fleet) Holdings() quota.Holdings {
	held := quota.Holdings{Measure: f.quota.Bytes, Snapshots: f.folders.SnapshotSize, HostProcesses: f.hosts.running()}
	if m := f.sandboxes(); m != nil {
		held.Processes, held.Sandboxes = m.Running(), m.Living()
	}
	return held
}

// Living counts the containers of each session.
func (f *Fleet) Living() map[message.WorkspaceKey]int {
	if m := f.sandboxes(); m != nil {
		return m.Living()
	}
	return nil
}

// running counts the background processes of each session, on the host and in its sandboxes.
func (f *Fleet) running() map[message.WorkspaceKey]int {
	counts := f.hosts.running()
	if m := f.sandboxes(); m != nil {
		for session, n := range m.Running() {
			counts[session] += n
		}
	}
	return counts
}
