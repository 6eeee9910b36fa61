package fleet

import (
	"path/filepath"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Folders are where the sessions of a store have files on the host.
type Folders struct {
	Workspaces string // a folder for each session, on the host and in its sandbox alike
	homes      string // a folder for each session's commands on the host, their HOME; no tool, sandbox or mount reaches it
}

// FoldersOf returns the folders of a store. Mount rules keep sandboxes from both, since they lie in the store's.
func FoldersOf(store string) Folders {
	return Folders{Workspaces: filepath.Join(store, "workspaces"), homes: filepath.Join(store, "homes")}
}

// Size is what a session's folders take on the disk, in bytes.
func (f Folders) Size(session string) int64 {
	return quota.Tree(workspace.Path(f.Workspaces, session)) + quota.Tree(workspace.Path(f.homes, session))
}

// RemoveHome removes what a session's commands on the host have kept outside of its workspace.
func (f Folders) RemoveHome(session string) error {
	return removeall.Folder(workspace.Path(f.homes, session))
}

// Holdings counts what sessions have: bytes on the disk, containers and background processes. Whose sessions they are, and the media, are
// the caller's to add.
func (f *Fleet) Holdings() quota.Holdings {
	held := quota.Holdings{Measure: f.quota.Bytes, HostProcesses: f.hosts.running()}
	if m := f.sandboxes(); m != nil {
		held.Processes, held.Sandboxes = m.Running(), map[string]int{}
		for session, n := range m.Living() {
			held.Sandboxes[message.ParseSession(session).WorkspaceKey()] += n
		}
	}
	return held
}

// running counts the background processes of each session, on the host and in its sandboxes.
func (f *Fleet) running() map[string]int {
	counts := f.hosts.running()
	if m := f.sandboxes(); m != nil {
		for session, n := range m.Running() {
			counts[session] += n
		}
	}
	return counts
}
