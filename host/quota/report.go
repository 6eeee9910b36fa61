package quota

import (
	"cmp"
	"slices"
)

// Held is what one sender holds.
type Held struct {
	Sender    string `json:"sender"` // empty for what belongs to nobody
	Sessions  int    `json:"sessions"`
	Bytes     int64  `json:"bytes"` // of workspaces
	Sandboxes int    `json:"sandboxes"`
}

// Report sums up what senders hold, the largest first. senders are those of sessions, each given once, and sandboxes counts
// the containers of each session.
func Report(senders map[string]string, measure func(session string) int64, sandboxes map[string]int) []Held {
	by := map[string]*Held{}
	of := func(session string) *Held {
		sender := senders[session]
		if by[sender] == nil {
			by[sender] = &Held{Sender: sender}
		}
		return by[sender]
	}
	for session := range senders {
		h := of(session)
		h.Sessions++
		h.Bytes += measure(session)
	}
	for session, n := range sandboxes {
		of(session).Sandboxes += n
	}
	list := []Held{}
	for _, h := range by {
		list = append(list, *h)
	}
	slices.SortFunc(list, func(a, b Held) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Sender, b.Sender)) })
	return list
}
