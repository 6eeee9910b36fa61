package quota

import (
	"cmp"
	"slices"

	"github.com/flynnhost/flynn/host/message"
)

// Held is what one sender holds.
type Held struct {
	Sender   message.SenderKey `json:"sender"` // empty for what belongs to nobody
	Sessions int               `json:"sessions"`
	Bytes    int64             `json:"bytes"` // of workspaces
	// Snapshots is the size of what undo can bring back.
	Snapshots int64 `json:"snapshots"`
	// Media is the size of the files in the media store that the sender sent or received; a file of several senders counts for each.
	Media     int64 `json:"media"`
	Sandboxes int   `json:"sandboxes"`
	// Processes counts all background processes, HostProcesses those on the host.
	Processes     int `json:"processes"`
	HostProcesses int `json:"host_processes"`
}

// Holdings are the input of a Report.
type Holdings struct {
	Senders map[message.WorkspaceKey]message.SenderKey
	Measure func(session message.WorkspaceKey) int64 // size of a workspace in bytes
	// Snapshots returns the size of a session's snapshots in bytes; nil means none.
	Snapshots func(session message.WorkspaceKey) int64
	Media     map[message.SenderKey]int64 // by sender, in bytes
	// Sandboxes counts the containers of each session, Processes the background processes in them, HostProcesses those on the host.
	Sandboxes, Processes, HostProcesses map[message.WorkspaceKey]int
}

// Report sums up what senders hold, the largest first.
func Report(in Holdings) []Held {
	by := map[message.SenderKey]*Held{}
	of := func(sender message.SenderKey) *Held {
		if by[sender] == nil {
			by[sender] = &Held{Sender: sender}
		}
		return by[sender]
	}
	for session, sender := range in.Senders {
		h := of(sender)
		h.Sessions++
		h.Bytes += in.Measure(session)
		if in.Snapshots != nil {
			h.Snapshots += in.Snapshots(session)
		}
	}
	for sender, bytes := range in.Media {
		of(sender).Media += bytes
	}
	for session, n := range in.Sandboxes {
		of(in.Senders[session]).Sandboxes += n
	}
	for session, n := range in.Processes {
		of(in.Senders[session]).Processes += n
	}
	for session, n := range in.HostProcesses {
		h := of(in.Senders[session])
		h.Processes += n
		h.HostProcesses += n
	}
	list := []Held{}
	for _, h := range by {
		list = append(list, *h)
	}
	slices.SortFunc(list, func(a, b Held) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.Snapshots+b.Media, a.Bytes+a.Snapshots+a.Media), cmp.Compare(a.Sender, b.Sender))
	})
	return list
}
