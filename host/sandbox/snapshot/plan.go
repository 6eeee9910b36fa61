package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

// Plan says what an undo changes.
type Plan struct {
	// Code changes with the plan. An undo needs the code of a plan that a person has seen. Its first digit is how far it goes back.
	Code string    `json:"code,omitempty" doc:"What an undo is confirmed with; there is none if nothing can be undone"`
	Turn string    `json:"turn,omitempty" doc:"The turn that is undone; empty for another undo"`
	At   time.Time `json:"at,omitzero" doc:"When the turn first changed something"`
	// Why says why there is nothing to return to; empty if there is something.
	Why      string   `json:"why,omitempty" doc:"Why there is nothing to return to"`
	Restored []string `json:"restored" doc:"Files that get their earlier content back"`
	Removed  []string `json:"removed" doc:"Files that did not exist"`
	Changed  []string `json:"changed" doc:"Files that have changed again since: they are left alone unless the undo is to overwrite them"`
	// Left are names that an undo could not change, with the reason.
	Left []string `json:"left,omitempty" doc:"After an undo: what could not be changed, and why"`
	// Count has the lengths of the lists, which end after maxNames.
	Count Count `json:"count" doc:"How many there are in all: the lists have the first 200"`
	// Skipped counts entries that snapshots do not cover.
	Skipped int `json:"skipped,omitempty" doc:"Entries that are not kept: sockets, pipes, devices, unreadable and changing files"`
	// Final says why the undo could not be undone itself; empty if it could.
	Final string `json:"final,omitempty" doc:"Why this undo could not be undone"`
}

// Count counts the names of a plan.
type Count struct {
	Restored int `json:"restored"`
	Removed  int `json:"removed"`
	Changed  int `json:"changed"`
}

// Empty reports whether the undo would change nothing.
func (p Plan) Empty() bool { return len(p.Restored)+len(p.Removed)+len(p.Changed) == 0 }

// backOf returns how far the plan of a code goes back, or 0.
func backOf(code string) int {
	if code == "" {
		return 0
	}
	back, _ := strconv.ParseInt(code[:1], 16, 32)
	return int(back)
}

// Plan returns what an undo would change that goes back over a number of snapshots, 1 for the latest. Nothing may run in the workspace.
func (s *Store) Plan(ctx context.Context, session message.WorkspaceKey, back int) (Plan, error) {
	one, err := s.open(session)
	if err != nil {
		return Plan{}, err
	}
	defer one.unlock()
	w, err := one.plan(ctx, back)
	return w.Plan, err
}

// work is a plan with what has to be done.
type work struct {
	Plan
	back   int
	target entry
	remove []string        // children first
	put    []file          // parents first
	again  map[string]bool // paths that have changed since
}

// plan compares the workspace with a snapshot.
func (s *set) plan(ctx context.Context, back int) (w work, err error) {
	list := s.index.Snapshots
	w.back = back
	w.Restored, w.Removed, w.Changed = []string{}, []string{}, []string{}
	switch {
	case len(list) == 0:
		w.Why = "no turn has changed files here since snapshots are kept"
	case back < 1 || back > len(list):
		w.Why = fmt.Sprintf("only %d snapshots are kept", len(list))
	default:
		w.target = list[len(list)-back]
		w.At, w.Why = w.target.At, w.target.Why
		if !w.target.Undo {
			w.Turn = w.target.Turn
		}
	}
	if w.Why != "" {
		return w, nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	return w, s.compare(ctx, &w)
}

func (s *set) compare(ctx context.Context, w *work) error {
	target, err := s.read(w.target.ID + before)
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	var ended *state
	if newest := s.newest(); newest.Settled {
		last, err := s.read(newest.ID + after)
		if err != nil {
			return fmt.Errorf("read the snapshot: %w", err)
		}
		ended = &last
	}
	differs := map[string]bool{} // files whose content was compared
	now, err := scan(ctx, s.files, func(e fsroot.Entry, f *file) error {
		if was, is := target.Files[f.Path]; is && !was.untouched(*f) {
			differs[f.Path] = !s.sameContent(e, was, *f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	d := difference{target: target, now: now, ended: ended, differs: differs}
	d.fill(w)
	w.Skipped = len(target.Skipped)
	w.Final = s.final(target, now)
	w.sum()
	return nil
}

// final returns why the present files could not be kept before an undo, besides those that it brings back.
func (s *set) final(target, now state) string {
	last, _ := s.lastState()
	var need int64
	for _, f := range now.Files {
		if old, is := last.Files[f.Path]; f.regular() && (!is || !old.serves(f)) {
			need += f.Size
		}
	}
	for _, f := range target.Files {
		if f.Blob != "" {
			need += f.Size
		}
	}
	if limit := s.Limit(); need > limit {
		return fmt.Sprintf("to keep the present files, too, takes %s, and snapshot_disk under [limits] allows %s", quota.Size(need), quota.Size(limit))
	}
	return ""
}

// sameContent reports whether a file, which was written to or replaced, has the content and the rights that it had.
func (s *set) sameContent(e fsroot.Entry, was, now file) bool {
	if was.Mode != now.Mode || was.Size != now.Size || was.UID != now.UID || was.GID != now.GID {
		return false
	}
	kept, err := os.Open(filepath.Join(s.dir, blobs, was.Blob))
	if err != nil {
		return false
	}
	defer kept.Close()
	present, err := e.Open()
	if err != nil {
		return false
	}
	defer present.Close()
	return equal(kept, present)
}

func equal(a, b io.Reader) bool {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err1 := io.ReadFull(a, x)
		m, err2 := io.ReadFull(b, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		if err1 != nil || err2 != nil {
			return ended(err1) && ended(err2)
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// difference compares states.
type difference struct {
	target, now state
	ended       *state // at the end of the last turn; nil if it is not known
	differs     map[string]bool
}

// same reports whether an entry is as it was.
func (d difference) same(name string) bool {
	was, is := d.target.Files[name], d.now.Files[name]
	switch {
	case was.kind() != is.kind():
		return false
	case is.regular():
		return was.untouched(is) || !d.differs[name]
	case is.folder():
		return was.untouched(is)
	}
	return was.Link == is.Link
}

// since reports whether an entry has changed since the end of the turn, or may have.
func (d difference) since(name string) bool {
	if d.ended == nil {
		return true
	}
	then, was := d.ended.Files[name]
	now, is := d.now.Files[name]
	return was != is || is && !then.untouched(now)
}

// fill adds to the plan what has to be done.
func (d difference) fill(w *work) {
	w.again = map[string]bool{}
	covered := func(name string) bool { return d.target.covers(name) && d.now.covers(name) }
	add := func(list *[]string, f file) {
		if d.since(f.Path) {
			w.again[f.Path] = true
			list = &w.Changed
		}
		name := f.Path
		if f.folder() {
			name += "/"
		}
		*list = append(*list, name)
	}
	for _, name := range sorted(d.now.Files, func(f file) bool { return covered(f.Path) }) {
		was, had := d.target.Files[name]
		is := d.now.Files[name]
		if !had || was.kind() != is.kind() {
			w.remove = append([]string{name}, w.remove...)
		}
		if !had {
			add(&w.Removed, is)
		}
	}
	for _, name := range sorted(d.target.Files, func(f file) bool { return covered(f.Path) }) {
		if !d.same(name) {
			w.put = append(w.put, d.target.Files[name])
			add(&w.Restored, d.target.Files[name])
		}
	}
}

// sum sets the code, and shortens the lists.
func (w *work) sum() {
	if w.Empty() && len(w.remove)+len(w.put) == 0 {
		w.Why = "the files are as they were"
		return
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %q %q %q %q", w.target.ID, w.Restored, w.Removed, w.Changed, w.Final)
	w.Code = strings.ToUpper(strconv.FormatInt(int64(w.back), 16) + hex.EncodeToString(sum.Sum(nil))[:5])
	w.Count = Count{len(w.Restored), len(w.Removed), len(w.Changed)}
	for _, list := range []*[]string{&w.Restored, &w.Removed, &w.Changed} {
		*list = (*list)[:min(len(*list), maxNames)]
	}
}
