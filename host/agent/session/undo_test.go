package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// files are the workspaces: what they hold, and what was asked of them.
type files struct {
	changed    map[message.WorkspaceKey]time.Time
	busy       map[message.WorkspaceKey]string
	asked      []string
	unrecorded []snapshot.Undone
	full       message.WorkspaceKey // into which nothing fits
	held       map[message.WorkspaceKey]string
	notes      map[message.WorkspaceKey]string
}

func (f *files) Changed(session message.WorkspaceKey) time.Time { return f.changed[session] }

func (f *files) Busy(_ context.Context, session message.WorkspaceKey) string { return f.busy[session] }

func (f *files) PlanUndo(_ context.Context, session message.WorkspaceKey, back int) (snapshot.Plan, error) {
	f.asked = append(f.asked, fmt.Sprint("plan ", session, " ", back))
	return snapshot.Plan{Code: "1A"}, nil
}

func (f *files) Undo(_ context.Context, session message.WorkspaceKey, r snapshot.Request) (snapshot.Undone, error) {
	f.asked = append(f.asked, fmt.Sprint("undo ", session, " ", r.Code))
	if r.Code != "1A" {
		return snapshot.Undone{}, snapshot.ErrChanged
	}
	return snapshot.Undone{
		ID: "u", Session: session, By: r.By, At: time.Unix(9, 0), Overwrote: r.Overwrite,
		Plan: snapshot.Plan{Turn: "t", Count: snapshot.Count{Restored: 2, Removed: 1, Changed: 1}},
	}, nil
}

func (f *files) Unrecorded() []snapshot.Undone { return f.unrecorded }

func (f *files) RecordedUndo(u snapshot.Undone) error {
	f.asked = append(f.asked, fmt.Sprint("recorded ", u.ID))
	return nil
}

func (f *files) CopyWorkspace(_ context.Context, from, to message.WorkspaceKey, left []string) (snapshot.Copied, error) {
	if strings.HasSuffix(string(from), string(f.full)) && f.full != "" {
		return snapshot.Copied{}, errors.New("no room")
	}
	text := f.held[from]
	if text == "" {
		return snapshot.Copied{}, nil
	}
	f.held[to] = fmt.Sprint(text, " without ", len(left))
	return snapshot.Copied{Files: 1}, nil
}

func (f *files) RemoveWorkspace(session message.WorkspaceKey) error {
	delete(f.held, session)
	return nil
}

func (f *files) NoteFiles(session message.WorkspaceKey, text string) error {
	f.notes[session] = text
	return nil
}

// An undo is of the agent that changed files last, while nothing runs, and is recorded before it is over.
func TestUndo(t *testing.T) {
	s := open(t)
	k, a := keep(t, s, nil)
	undo := func(code string) error {
		_, err := k.Undo(t.Context(), "tg:ann", snapshot.Request{Code: code, By: "tg:ann", Overwrite: true})
		return err
	}
	if err := undo("1A"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody has answered: %v", err)
	}
	for _, key := range []message.SessionKey{"tg:ann:a", "tg:ann:b", "tg:ann:b#2", "tg:bob:a"} {
		answered(t, s, key, noon, "")
	}
	a.files.changed = map[message.WorkspaceKey]time.Time{"tg:ann:a": noon, "tg:ann:b": noon.Add(time.Second), "tg:bob:a": noon.Add(time.Hour)}
	for _, c := range []struct {
		name string
		set  func()
		want string
	}{
		{"a turn runs", func() { a.running = true }, "/stop"},
		{"a delegated task runs", func() { a.running, a.delegated = false, true }, "/stop"},
		{"a background command runs", func() { a.delegated, a.files.busy = false, map[message.WorkspaceKey]string{"tg:ann:a": "p1 runs"} }, "p1 runs"},
	} {
		c.set()
		_, err := k.PlanUndo(t.Context(), "tg:ann", 1)
		for _, err := range []error{err, undo("1A")} {
			if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	if len(a.files.asked) > 0 {
		t.Errorf("files were asked %q", a.files.asked)
	}
	a.files.busy = map[message.WorkspaceKey]string{"tg:bob:a": "not here"}
	if p, err := k.PlanUndo(t.Context(), "tg:ann", 2); err != nil || p.Code != "1A" {
		t.Errorf("plan %+v, %v", p, err)
	}
	if err := undo("1B"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("another plan: %v", err)
	}
	if err := undo("1A"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"plan tg:ann:b 2", "undo tg:ann:b 1B", "undo tg:ann:b 1A", "recorded u"}, a.files.asked); diff != "" {
		t.Errorf("files were asked (-want +got):\n%s", diff)
	}
	a.files.unrecorded = []snapshot.Undone{{ID: "left", Session: "tg:bob:a", By: "tg:bob"}}
	k.recordUndos(t.Context())
	rows, err := s.ListAudit(t.Context(), consent.AuditFilter{Kind: consent.AuditUndone})
	if err != nil || len(rows) != 2 || rows[0].Subject != "tg:ann:b" || rows[0].Detail != "2 files restored, 1 removed, 1 overwritten that had changed since" || rows[1].Actor != "tg:bob" {
		t.Errorf("audit log: %+v, %v", rows, err)
	}
}

// A fork has all files or none, and both the person and the agent hear which.
func TestForkTakesFiles(t *testing.T) {
	for _, c := range []struct {
		name    string
		held    map[message.WorkspaceKey]string
		full    message.WorkspaceKey
		files   int
		why     string
		holding []message.WorkspaceKey // of the fork
		told    string
	}{
		{"files", map[message.WorkspaceKey]string{"tg:ann:a": "x", "tg:ann:b": "y"}, "", 2, "", []message.WorkspaceKey{"web:new:a", "web:new:b"}, filesCopied},
		{"no files", map[message.WorkspaceKey]string{}, "", 0, "there were none", nil, ""},
		{"no room", map[message.WorkspaceKey]string{"tg:ann:a": "x", "tg:ann:b": "y"}, ":b", 0, "no room", nil, filesLeft},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			k, a := keep(t, s, nil)
			a.files = files{held: c.held, full: c.full, notes: map[message.WorkspaceKey]string{}}
			answered(t, s, "tg:ann:a", noon, "")
			answered(t, s, "tg:ann:b", noon.Add(time.Second), "")
			answered(t, s, "tg:ann:b#2", noon.Add(2*time.Second), "")
			turns, err := s.History(t.Context(), "tg", "tg:ann", 10)
			if err != nil || len(turns) != 3 {
				t.Fatalf("%d turns, %v", len(turns), err)
			}
			f, err := k.Fork(t.Context(), turns[:2], turns[2:], turnlog.Branch{Channel: "web", Conversation: message.Conversation{ID: "new"}, Sender: "web:owner"})
			if err != nil || f.Files != c.files || f.Why != c.why {
				t.Errorf("%+v, %v", f, err)
			}
			maps.DeleteFunc(a.files.held, func(w message.WorkspaceKey, _ string) bool { return w.Scope() == "tg:ann" })
			if got := slices.Sorted(maps.Keys(a.files.held)); !slices.Equal(got, c.holding) {
				t.Errorf("the fork has %q", got)
			}
			if got := a.files.notes["web:new:a"]; got != c.told {
				t.Errorf("the agent is told %q", got)
			}
			if list, err := s.SessionsIn(t.Context(), "web:new"); err != nil || len(list) != 2 {
				t.Errorf("%d sessions, %v", len(list), err)
			}
		})
	}
}
