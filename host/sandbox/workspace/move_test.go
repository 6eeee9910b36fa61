package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

var errKilled = errors.New("the process was killed")

// mortal is a process that is killed before its nth step, and does nothing more.
type mortal struct {
	hostFolders
	steps int
}

func (m *mortal) step() error {
	if m.steps--; m.steps < 0 {
		return errKilled
	}
	return nil
}

func (m *mortal) rename(from, to string) error {
	if err := m.step(); err != nil {
		return err
	}
	return m.hostFolders.rename(from, to)
}

func (m *mortal) removeEmpty(path string) error {
	if err := m.step(); err != nil {
		return err
	}
	return m.hostFolders.removeEmpty(path)
}

func (m *mortal) chmod(path string, mode fs.FileMode) error {
	if err := m.step(); err != nil {
		return err
	}
	return m.hostFolders.chmod(path, mode)
}

// stubborn refuses to rename one entry into the slot, for good.
type stubborn struct {
	hostFolders
	entry string
	err   error
}

func (s stubborn) rename(from, to string) error {
	if filepath.Base(from) == s.entry && filepath.Base(filepath.Dir(filepath.Dir(from))) == returningFolder {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: s.err}
	}
	return s.hostFolders.rename(from, to)
}

// only is a process without others.
type only string

func (o only) ID() string                     { return string(o) }
func (only) Others() (map[string]bool, error) { return nil, nil }

// scene is a root with one returning session and one slot.
type scene struct {
	root, workspace, slot string
	content               map[string]string
}

func newScene(t interface {
	Helper()
	Fatal(...any)
}, root string, content map[string]string) scene {
	t.Helper()
	w := New(Config{Path: root, Instance: "i", Host: only("h"), Holds: NewHolds()})
	s := scene{root: root, workspace: w.Path("s"), content: content}
	var err error
	if s.slot, _, err = w.Slot("0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Prepare("s"); err != nil {
		t.Fatal(err)
	}
	for name, text := range content {
		if err := plant(filepath.Join(s.workspace, name), text); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// plant makes what text says: a link, a folder, a pipe, or a file.
func plant(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	target, isLink := strings.CutPrefix(text, "link:")
	switch {
	case isLink:
		return os.Symlink(target, path)
	case text == "folder":
		return os.Mkdir(path, 0o755)
	case text == "pipe":
		return syscall.Mkfifo(path, 0o600)
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// harvest is plant's reverse: all that is in a folder, but for folders with something in them.
func harvest(folder string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, _ := filepath.Rel(folder, path)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			found[name] = "link:" + target
			return err
		case d.Type()&fs.ModeNamedPipe != 0:
			found[name] = "pipe"
		case d.IsDir():
			if inside, err := entries(path, 1); err != nil || len(inside) == 0 {
				found[name] = "folder"
				return err
			}
		default:
			text, err := os.ReadFile(path)
			found[name] = string(text)
			return err
		}
		return nil
	})
	return found, err
}

// intact says what is wrong with the workspace; extra is what else may be in it.
func (s scene) intact(extra map[string]string) error {
	want := maps.Clone(s.content)
	maps.Copy(want, extra)
	found, err := harvest(s.workspace)
	if err != nil {
		return err
	}
	if !maps.Equal(found, want) {
		return fmt.Errorf("workspace has %q, want %q", found, want)
	}
	if left, err := entries(filepath.Join(s.root, returningFolder), -1); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		return fmt.Errorf("journals %q are left (%v)", left, err)
	}
	if left, err := entries(s.slot, -1); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		return fmt.Errorf("the slot has %q (%v)", left, err)
	}
	return nil
}

var garden = map[string]string{
	"f": "text", "a/b/c": "deep", "empty": "folder", "link": "link:f", "dangling": "link:/nowhere", "pipe": "pipe",
	".hidden": "x", "odd\nname": "y", strings.Repeat("n", 255): "long", "\xff\xfe": "not UTF-8", "recovered-x": "z",
}

func TestMoveIntoASlot(t *testing.T) {
	s := newScene(t, t.TempDir(), garden)
	if err := os.Chmod(s.workspace, 0o751); err != nil {
		t.Fatal(err)
	}
	slot, err := os.Stat(s.slot)
	if err != nil {
		t.Fatal(err)
	}
	if err := newMove(hostFolders{}, s.workspace, s.slot).into(); err != nil {
		t.Fatal(err)
	}
	if err := s.intact(nil); err != nil {
		t.Error(err)
	}
	if now, err := os.Stat(s.workspace); err != nil || !os.SameFile(now, slot) || now.Mode().Perm() != 0o751 {
		t.Errorf("the workspace is not the slot's folder, or has mode %v (%v)", now.Mode(), err)
	}
}

// A host that is killed before any step, and whose successors are killed before any of theirs, loses nothing.
func TestMoveKilledAtEveryStep(t *testing.T) {
	const longest = 40
	for steps := range longest {
		for again := range longest {
			s := newScene(t, t.TempDir(), garden)
			err := newMove(&mortal{steps: steps}, s.workspace, s.slot).into()
			if steps == longest-1 && err != nil {
				t.Fatalf("a move takes more than %d steps: %v", steps, err)
			}
			_ = recoverMoves(&mortal{steps: again}, s.root, "")
			if err := Recover(s.root); err != nil {
				t.Fatalf("killed before steps %d and %d: %v", steps, again, err)
			}
			if err := s.intact(nil); err != nil {
				t.Fatalf("killed before steps %d and %d: %v", steps, again, err)
			}
			if err == nil {
				break // there was nothing to put back
			}
		}
	}
}

// The same with any workspace, any number of deaths, and with somebody who begins a new workspace in its absence.
func TestMoveProperty(t *testing.T) {
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp(parent, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		content := rapid.MapOf(
			rapid.StringMatching(`[a-z.]{0,3}[a-z]`),
			rapid.SampledFrom([]string{"text", "folder", "pipe", "link:a", "link:../../x"}),
		).Draw(t, "content")
		s := newScene(t, root, content)
		_ = newMove(&mortal{steps: rapid.IntRange(0, 12).Draw(t, "steps")}, s.workspace, s.slot).into()
		extra := map[string]string{}
		if rapid.Bool().Draw(t, "begun anew") && !exists(s.workspace) {
			if err := plant(filepath.Join(s.workspace, "new"), "newer"); err != nil {
				t.Fatal(err)
			}
			where := "recovered-h-0123456789abcdef/new"
			if len(content) == 0 { // there is nothing to put back
				where = "new"
			}
			extra[where] = "newer"
		}
		for _, steps := range rapid.SliceOfN(rapid.IntRange(0, 8), 0, 4).Draw(t, "deaths") {
			_ = recoverMoves(&mortal{steps: steps}, root, "")
		}
		if err := Recover(root); err != nil {
			t.Fatal(err)
		}
		if err := s.intact(extra); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMoveRefused(t *testing.T) {
	for name, c := range map[string]struct {
		folders folders
		spoil   func(s scene) error
	}{
		"another file system": {stubborn{entry: "f", err: syscall.EXDEV}, nil},
		"foreign owner":       {stubborn{entry: "a", err: syscall.EACCES}, nil},
		"slot in use":         {hostFolders{}, func(s scene) error { return os.WriteFile(filepath.Join(s.slot, "x"), nil, 0o600) }},
		"slot is gone":        {hostFolders{}, func(s scene) error { return os.Remove(s.slot) }},
		"too many entries": {hostFolders{}, func(s scene) error {
			for i := range maxReturning {
				if err := os.Symlink("x", filepath.Join(s.workspace, fmt.Sprint("many", i))); err != nil {
					return err
				}
				s.content[fmt.Sprint("many", i)] = "link:x"
			}
			return nil
		}},
		"another user's": {hostFolders{}, func(s scene) error {
			if os.Geteuid() != 0 {
				return os.Remove(s.slot)
			}
			return os.Chown(s.workspace, 4321, 4321)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, t.TempDir(), maps.Clone(garden))
			if c.spoil != nil {
				if err := c.spoil(s); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.Stat(s.workspace)
			if err != nil {
				t.Fatal(err)
			}
			if err := newMove(c.folders, s.workspace, s.slot).into(); !errors.Is(err, ErrStays) {
				t.Errorf("got %v", err)
			}
			_ = os.Remove(filepath.Join(s.slot, "x"))
			if err := s.intact(nil); err != nil {
				t.Error(err)
			}
			if after, err := os.Stat(s.workspace); err != nil || !os.SameFile(before, after) {
				t.Errorf("the workspace is another folder (%v)", err)
			}
		})
	}
}

// A workspace that cannot be put back is neither lost nor hidden behind an empty one.
func TestMoveThatCannotBePutBack(t *testing.T) {
	root := t.TempDir()
	s := newScene(t, root, garden)
	w := New(Config{Path: root, Instance: "i", Host: only("h"), Holds: NewHolds()})
	if err := newMove(&mortal{steps: 4}, s.workspace, s.slot).into(); err == nil || errors.Is(err, ErrStays) {
		t.Fatalf("got %v", err)
	}
	w.folders, w.host = &mortal{}, only("next")
	if _, _, err := w.Prepare("s"); !errors.Is(err, errKilled) {
		t.Errorf("a workspace was made beside the lost one: %v", err)
	}
	if err := w.ClearSlots(nil); !errors.Is(err, errKilled) {
		t.Errorf("the pool was cleared: %v", err)
	}
	if _, _, err := w.Prepare("other"); err != nil {
		t.Errorf("another session: %v", err)
	}
	w.folders = hostFolders{}
	if _, _, err := w.Prepare("s"); err != nil {
		t.Fatal(err)
	}
	if err := s.intact(nil); err != nil {
		t.Error(err)
	}
	if err := w.ClearSlots(map[string]bool{"h": true}); err != nil || !exists(s.slot) {
		t.Errorf("the slot of a living process is gone (%v)", err)
	}
	if err := w.ClearSlots(nil); err != nil || exists(s.slot) {
		t.Errorf("the pool is still there (%v)", err)
	}
}

// Nobody interferes with a move that another process is at: who needs the workspace waits, who tidies up passes by.
func TestMoveByAnotherProcess(t *testing.T) {
	s := newScene(t, t.TempDir(), garden)
	seized, err := seize(s.workspace)
	if err != nil {
		t.Fatal(err)
	}
	if err := newMove(hostFolders{}, s.workspace, s.slot).into(); !errors.Is(err, ErrStays) {
		t.Errorf("a workspace was moved twice at a time: %v", err)
	}
	m := newMove(&mortal{steps: 3}, s.workspace, s.slot)
	seized.Close()
	if err := m.into(); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if seized, err = seize(m.returning); err != nil {
		t.Fatal(err)
	}
	if err := Recover(s.root); err != nil || exists(s.workspace) {
		t.Errorf("a move of another process was undone (%v)", err)
	}
	waited := make(chan error)
	go func() { waited <- recoverMoves(hostFolders{}, s.root, filepath.Base(s.workspace)) }()
	seized.Close()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := s.intact(nil); err != nil {
		t.Error(err)
	}
}

// A process that has come since the move began is seen, and the move undone.
func TestMoveDisturbed(t *testing.T) {
	s := newScene(t, t.TempDir(), garden)
	m := newMove(hostFolders{}, s.workspace, s.slot)
	m.undisturbed = func() error { return errors.New("somebody is there") }
	if err := m.into(); !errors.Is(err, ErrStays) {
		t.Errorf("got %v", err)
	}
	if err := s.intact(nil); err != nil {
		t.Error(err)
	}
}
