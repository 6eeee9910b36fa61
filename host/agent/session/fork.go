package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/cli"
)

// Fork returns the sessions of a new conversation in which the turns of another one were said, which have ended. The new turns have ids
// of their own, the times and provenance labels of the old ones, but not their delegated turns. The files are Keeper.Fork's.
func Fork(ctx context.Context, from Source, turns []turnlog.Turn, b turnlog.Branch, now time.Time) ([]turnlog.WholeSession, error) {
	f := forking{b: b, now: now, sessions: map[turnKey]*turnlog.WholeSession{}, ids: map[string]string{}}
	for _, t := range turns {
		steps, err := from.Steps(ctx, t.ID)
		if err == nil {
			err = f.add(t, steps)
		}
		if err != nil {
			return nil, fmt.Errorf("fork %s: %w", t.ConversationKey(), err)
		}
	}
	for _, old := range f.origins {
		sum, err := from.LatestSummary(ctx, old)
		if err == nil {
			f.summarize(sum)
		}
	}
	var list []turnlog.WholeSession
	for _, s := range f.sessions {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b turnlog.WholeSession) int { return a.Session.Key.Parse().Epoch - b.Session.Key.Parse().Epoch })
	return list, nil
}

// turnKey tells the sessions of a conversation apart.
type turnKey struct {
	agent string
	epoch int
}

type forking struct {
	b        turnlog.Branch
	now      time.Time
	sessions map[turnKey]*turnlog.WholeSession
	origins  []message.SessionKey
	ids      map[string]string // of the new turns, by the old ones
	last     string
}

// add copies a turn.
func (f *forking) add(t turnlog.Turn, steps []turnlog.Step) error {
	if keepsItself(steps) {
		return store.Conflict("an agent CLI has answered here, which keeps its conversation itself: begin a new one")
	}
	old := t.Session.Parse()
	key := turnKey{old.Agent, old.Epoch}
	s := f.sessions[key]
	if s == nil {
		scope := string(message.NewConversationKey(f.b.Channel, f.b.Conversation.ID))
		s = &turnlog.WholeSession{Session: turnlog.Session{Key: message.Session{Scope: scope, Agent: old.Agent, Epoch: old.Epoch}.Key(), Agent: t.Agent}}
		f.sessions[key] = s
	}
	if !slices.Contains(f.origins, t.Session) {
		f.origins = append(f.origins, t.Session)
	}
	f.last = store.NewIDAfter(f.last, t.Started)
	f.ids[t.ID] = f.last
	for i := range steps {
		steps[i].Turn = f.last
	}
	t.ID, t.Session, t.Inbox = f.last, s.Session.Key, nil
	t.Channel, t.Conversation, t.Sender = f.b.Channel, f.b.Conversation, f.b.Sender
	s.Turns = append(s.Turns, turnlog.SessionTurn{Turn: t, Steps: steps})
	s.Session.Turns, s.Session.Last = s.Session.Turns+1, f.now
	return nil
}

// summarize copies a summary if all turns that it stands for were copied.
func (f *forking) summarize(sum turnlog.Summary) {
	through, ok := f.ids[sum.Through]
	if !ok {
		return
	}
	old := sum.Session.Parse()
	s := f.sessions[turnKey{old.Agent, old.Epoch}]
	sum.ID, sum.Session, sum.Through, sum.By = store.NewIDAfter(through, sum.At), s.Session.Key, through, through
	sum.Tokens, sum.CostUSD = 0, 0
	s.Summary = &sum
}

// keepsItself reports whether a program outside of the host knows what was said, and the host's transcript is not what it continues.
func keepsItself(steps []turnlog.Step) bool {
	for _, s := range steps {
		var record struct {
			Tool    string `json:"tool"`
			Program string `json:"program"`
		}
		if json.Unmarshal(s.Data, &record) == nil && (s.Kind == turnlog.StepToolStart && record.Tool == cli.ToolName || s.Kind == turnlog.StepUser && record.Program != "") {
			return true
		}
	}
	return false
}
