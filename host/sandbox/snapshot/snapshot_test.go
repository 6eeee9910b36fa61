package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

const session = message.WorkspaceKey("web:x:main")

// house is a store with one workspace.
type house struct {
	*Store
	t     *testing.T
	dir   string // the workspace
	limit int64
}

func newHouse(t *testing.T) *house {
	t.Helper()
	base := t.TempDir()
	h := &house{t: t, limit: 1 << 30}
	h.Store = New(Config{
		Dir: filepath.Join(base, "snapshots"), Workspaces: filepath.Join(base, "workspaces"), Limit: func() int64 { return h.limit }, Log: slog.New(slog.DiscardHandler),
	})
	h.dir = workspace.Path(h.Workspaces, session)
	h.must(os.MkdirAll(h.dir, 0o700))
	return h
}

func (h *house) must(errs ...error) {
	h.t.Helper()
	if err := errors.Join(errs...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) at(name string) string { return filepath.Join(h.dir, name) }

func (h *house) write(name, text string) {
	h.t.Helper()
	h.must(os.MkdirAll(filepath.Dir(h.at(name)), 0o755), os.WriteFile(h.at(name), []byte(text), 0o644))
}

// turn is a turn that changes files.
func (h *house) turn(id string, change func()) {
	h.t.Helper()
	h.Take(h.t.Context(), session, id)
	change()
	h.Settle(h.t.Context(), session, id)
}

func (h *house) plan(back int) Plan {
	h.t.Helper()
	p, err := h.Plan(h.t.Context(), session, back)
	h.must(err)
	return p
}

// undo undoes what a plan says.
func (h *house) undo(back int, overwrite bool) Undone {
	h.t.Helper()
	u, err := h.Undo(h.t.Context(), session, Request{Code: h.plan(back).Code, Overwrite: overwrite, By: "web:owner"})
	h.must(err, h.Recorded(u))
	return u
}

// show lists a tree: "mode name -> link = content" each.
func (h *house) show(dir string) []string {
	h.t.Helper()
	all := []string{}
	h.must(filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%v %q", info.Mode(), strings.TrimPrefix(name, dir+"/"))
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(name)
			h.must(err)
			line += fmt.Sprintf(" = %q", text[:min(len(text), 50)])
		}
		if to, err := os.Readlink(name); err == nil {
			line += " -> " + to
		}
		all = append(all, line)
		return nil
	}))
	return all
}

func (h *house) is(want []string, when string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.show(h.dir)); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// fill makes one of each kind, with rude names.
func (h *house) fill() {
	h.write("a", "one")
	h.write("d/e/f", "deep")
	h.write("new\nline\x01\xff", "rude name")
	h.write("-rf", "")
	h.write("run", "#!")
	h.must(os.Chmod(h.at("run"), 0o750), os.MkdirAll(h.at("empty"), 0o700), os.Symlink("/etc/passwd", h.at("l")), os.Symlink("d", h.at("in")),
		os.Symlink("nowhere", h.at("dangling")))
}

// An undo brings back what was changed, removed or replaced by another kind, and the undo of the undo brings that back.
func TestUndo(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(h *house)
	}{
		{"content", func(h *house) { h.write("a", "two and more") }},
		{"content of the same size and time", func(h *house) {
			info, err := os.Stat(h.at("a"))
			h.must(err)
			h.write("a", "eno")
			h.must(os.Chtimes(h.at("a"), info.ModTime(), info.ModTime()))
		}},
		{"content in place", func(h *house) {
			f, err := os.OpenFile(h.at("a"), os.O_WRONLY, 0)
			h.must(err)
			_, err = f.WriteAt([]byte("X"), 1)
			h.must(err, f.Close())
		}},
		{"content through a hard link", func(h *house) {
			h.must(os.Link(h.at("a"), h.at("other")), os.WriteFile(h.at("other"), []byte("through"), 0o600))
		}},
		{"mode", func(h *house) { h.must(os.Chmod(h.at("run"), 0o600), os.Chmod(h.at("d"), 0o711)) }},
		{"new ones", func(h *house) { h.write("n/n/n", "new"); h.must(os.Symlink("/", h.at("n/root"))) }},
		{"gone", func(h *house) { h.must(os.RemoveAll(h.at("d")), os.Remove(h.at("new\nline\x01\xff"))) }},
		{"renamed folder", func(h *house) { h.must(os.Rename(h.at("d"), h.at("g"))) }},
		{"everything gone", func(h *house) { h.must(os.RemoveAll(h.dir), os.Mkdir(h.dir, 0o700)) }},
		{"file becomes folder", func(h *house) { h.must(os.Remove(h.at("a"))); h.write("a/b/c", "folder") }},
		{"folder becomes file", func(h *house) { h.must(os.RemoveAll(h.at("d"))); h.write("d", "file") }},
		{"folder becomes a link outside", func(h *house) { h.must(os.RemoveAll(h.at("d")), os.Symlink("/etc", h.at("d"))) }},
		{"link becomes folder", func(h *house) { h.must(os.Remove(h.at("in"))); h.write("in/f", "x") }},
		{"link leads elsewhere", func(h *house) { h.must(os.Remove(h.at("l")), os.Symlink("a", h.at("l"))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.fill()
			was := h.show(h.dir)
			h.turn("t1", func() { c.change(h) })
			became := h.show(h.dir)
			if slices.Equal(was, became) && c.name != "mode" {
				t.Fatal("nothing was changed")
			}
			if p := h.plan(1); len(p.Changed) > 0 || p.Turn != "t1" || p.Empty() {
				t.Errorf("plan %+v", p)
			}
			for i, want := range [][]string{was, became, was} {
				if u := h.undo(1, false); len(u.Plan.Left) > 0 {
					t.Errorf("left: %q", u.Plan.Left)
				}
				h.is(want, fmt.Sprint("undo ", i+1))
			}
		})
	}
}

// Files that somebody has changed since are named, and left alone until the undo is to overwrite them.
func TestUndoLeavesLaterChanges(t *testing.T) {
	h := newHouse(t)
	h.write("a", "one")
	h.write("b", "one")
	h.write("gone", "one")
	h.turn("t1", func() {
		h.write("a", "two")
		h.write("b", "two")
		h.write("d/new", "two")
		h.must(os.Remove(h.at("gone")))
	})
	h.write("b", "mine")
	h.write("d/mine", "mine")
	h.write("gone", "mine")
	p := h.plan(1)
	if diff := cmp.Diff([][]string{{"a"}, {"d/", "d/new"}, {"d/mine", "b", "gone"}}, [][]string{p.Restored, p.Removed, p.Changed}); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	u := h.undo(1, false)
	if !slices.Equal(u.Plan.Left, []string{"d: other files are in it"}) {
		t.Errorf("left: %q", u.Plan.Left)
	}
	h.is([]string{`-rw-r--r-- "a" = "one"`, `-rw-r--r-- "b" = "mine"`, `drwxr-xr-x "d"`, `-rw-r--r-- "d/mine" = "mine"`, `-rw-r--r-- "gone" = "mine"`}, "undo")
	h.undo(1, false)
	h.undo(1, false)
	h.write("b", "again")
	if p := h.plan(2); !slices.Equal(p.Changed, []string{"b"}) {
		t.Errorf("plan %+v", p)
	}
	h.undo(4, true) // redo, undo and the first undo are above it
	h.is([]string{`-rw-r--r-- "a" = "one"`, `-rw-r--r-- "b" = "one"`, `-rw-r--r-- "gone" = "one"`}, "overwrite")
}

// A turn that does not call Take costs nothing, and one that changes nothing leaves nothing to undo.
func TestNothingToUndo(t *testing.T) {
	h := newHouse(t)
	h.write("a", "one")
	if p := h.plan(1); p.Why == "" || p.Code != "" {
		t.Errorf("plan %+v", p)
	}
	if _, err := os.Stat(h.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking has made %s", h.Dir)
	}
	h.turn("t1", func() { h.write("a", "two") })
	h.turn("t2", func() {})
	h.turn("t3", func() { h.must(syscall.Access(h.at("a"), 4)) })
	if p := h.plan(1); p.Turn != "t1" {
		t.Errorf("plan %+v", p)
	}
	h.write("a", "one")
	if p := h.plan(1); p.Why != "the files are as they were" {
		t.Errorf("plan %+v", p)
	}
	if _, err := h.Undo(t.Context(), session, Request{}); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
	if p := h.plan(2); p.Why == "" {
		t.Errorf("plan %+v", p)
	}
}

// An undo does what was confirmed, or nothing.
func TestUndoOfAnotherPlan(t *testing.T) {
	h := newHouse(t)
	h.write("a", "one")
	h.turn("t1", func() { h.write("a", "two") })
	code := h.plan(1).Code
	h.write("late", "x")
	for _, code := range []string{"", "ABCDEF", code} {
		if _, err := h.Undo(t.Context(), session, Request{Code: code}); !errors.Is(err, ErrChanged) {
			t.Errorf("%q: got %v", code, err)
		}
	}
	h.is([]string{`-rw-r--r-- "a" = "two"`, `-rw-r--r-- "late" = "x"`}, "after refusals")
}

// Sockets, pipes and devices, unreadable files and names that drafts have are not covered, and not touched.
func TestSpecialFiles(t *testing.T) {
	h := newHouse(t)
	h.write("a", "one")
	socket, err := net.Listen("unix", h.at("socket"))
	h.must(err)
	defer socket.Close()
	h.must(syscall.Mkfifo(h.at("pipe"), 0o600))
	h.turn("t1", func() {
		h.write("a", "two")
		h.must(os.Mkdir(h.at("d"), 0o700), syscall.Mkfifo(h.at("d/pipe"), 0o600))
	})
	if p := h.plan(1); p.Skipped != 2 {
		t.Errorf("plan %+v", p)
	}
	if u := h.undo(1, false); !slices.Equal(u.Plan.Left, []string{"d: other files are in it"}) {
		t.Errorf("left %q", u.Plan.Left)
	}
	for _, name := range []string{"socket", "pipe", "d/pipe"} {
		if _, err := os.Lstat(h.at(name)); err != nil {
			t.Error(err)
		}
	}
}

// A file with holes takes no more than its data, in the snapshot and when it comes back.
func TestSparseFile(t *testing.T) {
	h := newHouse(t)
	h.limit = 1 << 20
	f, err := os.Create(h.at("sparse"))
	h.must(err)
	_, err = f.WriteAt([]byte("data"), 1<<32)
	h.must(err, f.Truncate(1<<40), f.Close())
	h.turn("t1", func() { h.must(os.Remove(h.at("sparse"))) })
	h.undo(1, false)
	info, err := os.Stat(h.at("sparse"))
	h.must(err)
	if info.Size() != 1<<40 || allocated(info) > 1<<16 {
		t.Errorf("%d bytes, %d on the disk", info.Size(), allocated(info))
	}
	part := make([]byte, 4)
	f, err = os.Open(h.at("sparse"))
	h.must(err)
	defer f.Close()
	if _, err := f.ReadAt(part, 1<<32); err != nil || string(part) != "data" {
		t.Errorf("%q, %v", part, err)
	}
}

// Snapshots are bounded in number and bytes: the oldest ones go, and a turn whose files do not fit has none, which is said.
func TestBounds(t *testing.T) {
	h := newHouse(t)
	for i := range maxSnapshots + 5 {
		h.turn(fmt.Sprint("t", i), func() { h.write("a", fmt.Sprint(i)) })
	}
	if p := h.plan(maxSnapshots + 1); p.Why == "" {
		t.Errorf("plan %+v", p)
	}
	h.undo(maxSnapshots, false)
	h.is([]string{`-rw-r--r-- "a" = "4"`}, "the oldest")

	h.limit = 256 << 10
	h.turn("fits", func() { h.write("big", strings.Repeat("x", 200<<10)) })
	h.turn("fits too", func() { h.write("big2", strings.Repeat("x", 200<<10)) })
	if got := quota.Tree(h.path(session)); got > h.limit+64<<10 { // with the lists
		t.Errorf("%d bytes are kept", got)
	}
	h.turn("large", func() { h.write("a", "changed") })
	if p := h.plan(1); !strings.Contains(p.Why, "snapshot_disk") {
		t.Errorf("plan %+v", p)
	}
	if got := quota.Tree(h.path(session)); got > h.limit+64<<10 { // with the lists
		t.Errorf("%d bytes are kept", got)
	}
	h.limit = 0
	h.turn("off", func() { h.write("a", "changed again") })
	if p := h.plan(1); !strings.Contains(p.Why, "snapshot_disk") {
		t.Errorf("plan %+v", p)
	}
}

// A plan says that an undo cannot be undone, if the present files cannot be kept.
func TestFinalUndo(t *testing.T) {
	h := newHouse(t)
	h.limit = 64 << 10
	h.write("a", "one")
	h.turn("t1", func() { h.write("big", strings.Repeat("x", 1<<20)) })
	if p := h.plan(1); p.Final == "" || p.Code == "" {
		t.Errorf("plan %+v", p)
	}
	h.undo(1, false)
	h.is([]string{`-rw-r--r-- "a" = "one"`}, "undo")
	if p := h.plan(1); p.Why == "" {
		t.Errorf("plan %+v", p)
	}
}

// A snapshot that takes the room of the one before it has all contents itself.
func TestRoomOfTheLastSnapshot(t *testing.T) {
	h := newHouse(t)
	h.limit = 500 << 10
	h.now = func() time.Time { return time.Now().Add(settleAfter * 2) }
	h.write("a", strings.Repeat("a", 200<<10))
	h.turn("t1", func() { h.write("b", strings.Repeat("b", 200<<10)) })
	h.turn("t2", func() { h.write("b", strings.Repeat("c", 200<<10)) })
	h.turn("t3", func() { h.must(os.Remove(h.at("a")), os.Remove(h.at("b"))) })
	u := h.undo(1, false)
	if len(u.Plan.Left) > 0 {
		t.Errorf("left %q", u.Plan.Left)
	}
	for name, want := range map[string]string{"a": strings.Repeat("a", 200<<10), "b": strings.Repeat("c", 200<<10)} {
		if text, err := os.ReadFile(h.at(name)); err != nil || string(text) != want {
			t.Errorf("%s has %d bytes (%v)", name, len(text), err)
		}
	}
}

// Contents that have not changed are kept once.
func TestContentsAreShared(t *testing.T) {
	h := newHouse(t)
	h.now = func() time.Time { return time.Now().Add(settleAfter * 2) } // all changes are long ago
	h.write("big", strings.Repeat("x", 1<<20))
	for i := range 5 {
		h.turn(fmt.Sprint("t", i), func() { h.write("a", fmt.Sprint(i)) })
	}
	if got := quota.Tree(h.path(session)); got > 3<<20/2 {
		t.Errorf("%d bytes are kept", got)
	}
	h.turn("t6", func() { h.must(os.Remove(h.at("big"))) })
	h.undo(1, false)
	if info, err := os.Stat(h.at("big")); err != nil || info.Size() != 1<<20 {
		t.Errorf("%v (%v)", info, err)
	}
}

// Files that change while they are copied are not covered, and never half kept.
func TestFilesThatChangeMeanwhile(t *testing.T) {
	h := newHouse(t)
	h.write("quiet", "quiet")
	stop, done := make(chan struct{}), sync.WaitGroup{}
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(h.at("loud"), []byte(strings.Repeat(fmt.Sprint(i%10), 100_000)), 0o600)
			_ = os.RemoveAll(h.at("d"))
			_ = os.MkdirAll(h.at("d/e"), 0o700)
			_ = os.Symlink("/etc", h.at("d/e/f"))
		}
	})
	for i := range 20 {
		h.Take(t.Context(), session, fmt.Sprint("t", i))
	}
	close(stop)
	done.Wait()
	one, err := h.open(session)
	h.must(err)
	defer one.unlock()
	for _, e := range one.index.Snapshots {
		if e.Why != "" {
			continue
		}
		all, err := one.read(e.ID + before)
		h.must(err)
		if _, is := all.Files["quiet"]; !is {
			t.Error("a quiet file is missing")
		}
		if loud, is := all.Files["loud"]; is {
			text, err := os.ReadFile(filepath.Join(one.dir, blobs, loud.Blob))
			h.must(err)
			if int64(len(text)) != loud.Size || strings.Trim(string(text), string(text[:min(1, len(text))])) != "" {
				t.Error("a file is half kept")
			}
		}
	}
}

// A program that swaps folders for links while a snapshot is taken, or has done so before an undo, leads neither outside.
func TestNothingOutside(t *testing.T) {
	h := newHouse(t)
	outside := t.TempDir()
	h.must(os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o600))
	h.write("d/f", "mine")
	h.write("d/g", "mine")
	stop, done := make(chan struct{}), sync.WaitGroup{}
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(h.at("d"), h.at("away"))
			_ = os.Symlink(outside, h.at("d"))
			_ = os.Remove(h.at("d"))
			_ = os.Rename(h.at("away"), h.at("d"))
		}
	})
	for i := range 50 {
		h.Take(t.Context(), session, fmt.Sprint("t", i))
		if _, err := h.Copy(t.Context(), session, message.WorkspaceKey(fmt.Sprint("fork", i)), nil, func(int64) error { return nil }); err != nil {
			t.Log(err)
		}
	}
	close(stop)
	done.Wait()
	for _, dir := range []string{h.Dir, h.Workspaces} {
		h.must(filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if text, err := os.ReadFile(name); err != nil || strings.Contains(string(text), "secret") {
				t.Errorf("%s is from outside (%v)", name, err)
			}
			return nil
		}))
	}
	h.turn("last", func() {
		h.must(os.RemoveAll(h.at("d")), os.RemoveAll(h.at("away")), os.Symlink(outside, h.at("d")))
	})
	h.undo(1, true)
	if got := h.show(outside); !slices.Equal(got, []string{`-rw------- "f" = "secret"`}) {
		t.Errorf("outside is %q", got)
	}
}

var errKilled = errors.New("the process was killed")

// An undo that is killed at any step is complete after the next start, recorded once, and told to the agent once.
func TestUndoIsDurable(t *testing.T) {
	for n := 0; ; n++ {
		h := newHouse(t)
		h.fill()
		was := h.show(h.dir)
		h.turn("t1", func() {
			h.write("a", "two")
			h.must(os.RemoveAll(h.at("d")))
			h.write("d", "file")
			h.write("n/n", "new")
			h.must(os.Remove(h.at("l")))
		})
		became := h.show(h.dir)
		steps, killed, code := n, "", h.plan(1).Code
		h.step = func(name string) error {
			if steps--; steps < 0 {
				killed = name
				return errKilled
			}
			return nil
		}
		u, err := h.Undo(t.Context(), session, Request{Code: code, By: "web:owner"})
		next := New(h.Config) // the process that starts then
		h.Store = next
		if strings.HasPrefix(killed, "put") { // drafts that it has left
			h.must(os.WriteFile(h.at(".flynn-ABCDEFGHIJKLMNOPQRSTUVWXYZ"), nil, 0o600))
		}
		all, failed := next.Recover()
		h.must(failed)
		want := was
		if killed == "journal" { // it had not begun
			want = became
		}
		h.is(want, "killed before "+killed)
		if notes := next.Notes(session); len(notes) != len(all) || len(all) != 1 && killed != "journal" {
			t.Errorf("killed before %s: %d notes, %d records", killed, len(notes), len(all))
		}
		for _, u := range all {
			h.must(next.Recorded(u))
		}
		if again, err := next.Recover(); len(again) > 0 || err != nil {
			t.Errorf("killed before %s: %d records come again (%v)", killed, len(again), err)
		}
		if again, err := next.Undo(t.Context(), session, Request{Code: code, By: "web:owner"}); err != nil || again.Plan.Code != code {
			t.Errorf("killed before %s: the same undo again: %+v, %v", killed, again, err)
		} else if killed == "journal" {
			h.must(next.Recorded(again))
		}
		h.is(was, "the same undo again, killed before "+killed)
		h.undo(1, false)
		h.is(became, "undo after one that was killed before "+killed)
		if killed == "" {
			h.must(err)
			if n < 8 || u.ID == "" {
				t.Errorf("only %d steps", n)
			}
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
}

// A copy has the files of the original, or there is none.
func TestCopy(t *testing.T) {
	h := newHouse(t)
	h.fill()
	h.must(syscall.Mkfifo(h.at("pipe"), 0o600))
	free := func(int64) error { return nil }
	c, err := h.Copy(t.Context(), session, "web:fork:main", nil, free)
	h.must(err, os.Remove(h.at("pipe")))
	if diff := cmp.Diff(h.show(h.dir), h.show(workspace.Path(h.Workspaces, "web:fork:main"))); diff != "" || c.Skipped != 1 || c.Files != 5 {
		t.Errorf("%+v (-want +got):\n%s", c, diff)
	}
	errFull := errors.New("full")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, try := range map[string]func(to message.WorkspaceKey) error{
		"no room": func(to message.WorkspaceKey) error {
			_, err := h.Copy(t.Context(), session, to, nil, func(int64) error { return errFull })
			return err
		},
		"given up": func(to message.WorkspaceKey) error { _, err := h.Copy(ctx, session, to, nil, free); return err },
		"taken": func(message.WorkspaceKey) error {
			_, err := h.Copy(t.Context(), session, "web:fork:main", nil, free)
			return err
		},
	} {
		if try("web:none:main") == nil {
			t.Errorf("%s: no error", name)
		}
		if left, _ := filepath.Glob(filepath.Join(h.Workspaces, "*")); len(left) != 2 {
			t.Errorf("%s: left %q", name, left)
		}
	}
	if c, err := h.Copy(t.Context(), "web:nothing:main", "web:none:main", nil, free); err != nil || c != (Copied{}) {
		t.Errorf("%+v, %v", c, err)
	}
	h.must(os.MkdirAll(filepath.Join(h.Workspaces, copyPrefix+"left/d"), 0o700))
	_, err = h.Recover()
	h.must(err)
	if left, _ := filepath.Glob(filepath.Join(h.Workspaces, copyPrefix+"*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// A copy that leaves out turns has the files as they were before them, as far as that is kept.
func TestCopyOfEarlierFiles(t *testing.T) {
	h := newHouse(t)
	free := func(int64) error { return nil }
	h.turn("t1", func() { h.fill() })
	was := h.show(h.dir)
	h.turn("t2", func() { h.write("a", "two"); h.must(os.RemoveAll(h.at("d"))) })
	h.turn("t3", func() { h.write("a", "three") })
	for i, c := range []struct {
		left []string
		want []string
		then bool
	}{{[]string{"t2", "t3"}, was, true}, {[]string{"talk", "t2"}, was, true}, {nil, h.show(h.dir), false}, {[]string{"older"}, h.show(h.dir), false}} {
		to := message.WorkspaceKey(fmt.Sprint("web:fork", i, ":main"))
		got, err := h.Copy(t.Context(), session, to, c.left, free)
		h.must(err)
		if diff := cmp.Diff(c.want, h.show(workspace.Path(h.Workspaces, to))); diff != "" || got.Then != c.then {
			t.Errorf("%q: %+v (-want +got):\n%s", c.left, got, diff)
		}
	}
	if got, err := h.Copy(t.Context(), session, "web:empty:main", []string{"t1", "t2"}, free); err != nil || got.Files > 0 {
		t.Errorf("before the first: %+v, %v", got, err)
	}
	h.limit = 0
	h.turn("t4", func() { h.write("a", "four") })
	if _, err := h.Copy(t.Context(), session, "web:none:main", []string{"t4"}, free); err == nil || !strings.Contains(err.Error(), "not kept") {
		t.Errorf("got %v", err)
	}
}

func TestRemove(t *testing.T) {
	h := newHouse(t)
	h.turn("t1", func() { h.write("a", "x") })
	h.must(h.Remove(session), h.Remove(session))
	if left, _ := filepath.Glob(filepath.Join(h.Dir, "*")); len(left) > 0 || quota.Tree(h.path(session)) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestRemoveAfterACrash removes the snapshots of a session whose undo was interrupted: the next start must not go on with it, nor make its
// workspace again.
func TestRemoveAfterACrash(t *testing.T) {
	h := newHouse(t)
	h.turn("t1", func() { h.write("a", "x") })
	code := h.plan(1).Code
	h.step = func(name string) error {
		if name != "journal" {
			return errKilled
		}
		return nil
	}
	if _, err := h.Undo(t.Context(), session, Request{Code: code, By: "web:owner"}); !errors.Is(err, errKilled) || !h.Pending(session) {
		t.Fatalf("%v, pending %t", err, h.Pending(session))
	}
	h.Store = New(h.Config)
	h.must(os.RemoveAll(h.dir), h.Remove(session))
	all, err := h.Recover()
	h.must(err)
	if _, err := os.Lstat(h.dir); len(all) > 0 || h.Pending(session) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d undos go on, pending %t, the workspace: %v", len(all), h.Pending(session), err)
	}
}
