package wssync_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
)

// volume is a folder that does what a supervisor does with its own.
type volume struct {
	fsroot.Tree
	exports []string // the files whose content was sent, as they were sent
	broken  error
}

func (v *volume) Export(ctx context.Context, body frame.ExportBody, known io.Reader, read func(io.Reader) error) (frame.ExportReply, error) {
	if v.broken != nil {
		return frame.ExportReply{}, v.broken
	}
	had := map[string]frame.Record{}
	if body.Known {
		err := archive.NewReader(known).Each(func(r frame.Record, _ io.Reader) error { had[string(r.Path)] = r; return nil })
		if err != nil {
			return frame.ExportReply{}, err
		}
	}
	var wire bytes.Buffer
	err := v.Walk(ctx, func(e fsroot.Entry) error {
		old, is := had[string(e.Path)]
		e.Bare = body.Bare || is && old.Mtime == e.Mtime && old.Size == e.Size || body.MaxFile > 0 && e.Size > body.MaxFile
		if e.Bare || e.Type() != frame.TypeFile {
			_, err := wire.Write(e.Append(nil))
			return err
		}
		v.exports = append(v.exports, string(e.Path))
		return e.Send(&wire)
	})
	if err != nil {
		return frame.ExportReply{}, err
	}
	return frame.ExportReply{}, read(&wire)
}

func (v *volume) Import(_ context.Context, _ string, write func(io.Writer) error) error {
	var wire bytes.Buffer
	if err := write(&wire); err != nil {
		return err
	}
	return archive.NewReader(&wire).Each(v.Put)
}

func (v *volume) Remove(_ context.Context, name string, _ bool) error { return v.Root.RemoveAll(name) }

// scene is a session with a folder and a volume.
type scene struct {
	run, home, there string
	mark             string
	volume           *volume
	set              *wssync.Set
	syncer           *wssync.Syncer
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{run: t.TempDir(), home: t.TempDir(), there: t.TempDir(), mark: "first"}
	root, err := os.OpenRoot(s.there)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s.volume = &volume{Tree: fsroot.Tree{Root: root, Mirror: true}}
	s.restart()
	return s
}

// restart is a host that knows no more than its files tell.
func (s *scene) restart() {
	s.set = wssync.NewSet(s.run, slog.New(slog.DiscardHandler))
	s.syncer = s.set.Of("s", s.home, s.mark)
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// files are those of a folder with their content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if info, err := d.Info(); err != nil || info.Size() > 1<<20 {
			all[name] = "large"
			return err
		}
		text, err := os.ReadFile(path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// both fails if either side has anything else.
func (s *scene) both(t *testing.T, when string, want map[string]string) {
	t.Helper()
	for side, dir := range map[string]string{"home": s.home, "volume": s.there} {
		if diff := cmp.Diff(want, files(t, dir)); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", when, side, diff)
		}
	}
}

func (s *scene) begin(t *testing.T) {
	t.Helper()
	if err := s.syncer.Begin(t.Context(), s.volume); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) fetch(t *testing.T) {
	t.Helper()
	if err := s.syncer.Fetch(t.Context(), s.volume); err != nil {
		t.Fatal(err)
	}
}

func TestBothAreMadeTheSame(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		s := newScene(t)
		again := func() {
			if restarted {
				s.restart()
			}
		}
		put(t, s.home, "d/f", "from home")
		put(t, s.home, "kept", "k")
		s.begin(t)
		s.both(t, "at the start", map[string]string{"d/f": "from home", "kept": "k"})

		put(t, s.there, "d/f", "changed inside")
		put(t, s.there, "new/deep", "inside")
		s.fetch(t)
		s.both(t, "after a command", map[string]string{"d/f": "changed inside", "new/deep": "inside", "kept": "k"})
		if got := s.volume.exports; !cmp.Equal(got, []string{"d/f", "new/deep"}) {
			t.Errorf("sent home: %q", got)
		}

		remove(t, s.there, "new")
		s.fetch(t)
		again()
		put(t, s.home, "kept", "changed at home")
		remove(t, s.home, "d")
		put(t, s.home, "d", "a file now")
		s.begin(t)
		s.both(t, "in the next container", map[string]string{"d": "a file now", "kept": "changed at home"})
	}
}

// In a volume that was made anew no command has deleted anything.
func TestVolumeThatIsAnotherOne(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		s := newScene(t)
		put(t, s.home, "d/f", "from home")
		s.begin(t)
		put(t, s.there, "made", "inside")
		s.fetch(t)

		remove(t, s.there, "d")
		remove(t, s.there, "made")
		s.mark = "second"
		if restarted {
			s.restart()
		} else {
			s.syncer = s.set.Of("s", s.home, s.mark)
		}
		s.begin(t)
		s.both(t, "in a new volume", map[string]string{"d/f": "from home", "made": "inside"})

		remove(t, s.there, "made")
		s.fetch(t)
		s.both(t, "after a command there", map[string]string{"d/f": "from home"})
	}
}

// A forgotten session is nowhere, and there may be nothing to forget.
func TestForget(t *testing.T) {
	s := newScene(t)
	put(t, s.home, "f", "x")
	s.begin(t)
	for range 2 {
		if err := s.set.Forget("s", s.home); err != nil {
			t.Fatal(err)
		}
	}
	if left := files(t, s.run); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// A file that a command wrote after the last look replaces one that was changed at home meanwhile; the rest of home is kept.
func TestUnseenChangesComeHomeFirst(t *testing.T) {
	s := newScene(t)
	put(t, s.home, "a", "old")
	put(t, s.home, "b", "old")
	s.begin(t)
	put(t, s.there, "a", "written inside")
	put(t, s.there, "late", "written inside")
	put(t, s.home, "a", "at home")
	put(t, s.home, "b", "changed at home")
	s.restart()
	s.begin(t)
	s.both(t, "in the next container", map[string]string{"a": "written inside", "b": "changed at home", "late": "written inside"})
}

// Without a memory home wins where both have something, and nothing is removed on either side.
func TestMemoryIsLost(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"gone": os.Remove, "broken": func(path string) error { return os.WriteFile(path, []byte("\x00\x00\x00\x02{]"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			put(t, s.home, "a", "old")
			s.begin(t)
			put(t, s.there, "a", "written inside")
			put(t, s.there, "b", "written inside")
			if err := spoil(filepath.Join(s.run, "carry-"+filepath.Base(s.home))); err != nil {
				t.Fatal(err)
			}
			s.restart()
			put(t, s.home, "a", "at home")
			s.begin(t)
			s.fetch(t)
			if got, want := files(t, s.there), (map[string]string{"a": "at home", "b": "written inside"}); !cmp.Equal(got, want) {
				t.Errorf("volume %q, want %q", got, want)
			}
			if got := files(t, s.home)["a"]; got != "at home" {
				t.Errorf("a at home is %q", got)
			}
		})
	}
}

// A file that is too large to come home stays in the volume, and takes nothing away that was there before.
func TestGiantStays(t *testing.T) {
	s := newScene(t)
	put(t, s.home, "f", "small")
	s.begin(t)
	if err := os.Truncate(filepath.Join(s.there, "f"), 1<<40); err != nil {
		t.Skipf("this file system has no files of that size: %v", err)
	}
	s.fetch(t)
	if got := files(t, s.home)["f"]; got != "small" {
		t.Errorf("at home is %q", got)
	}
	if got := files(t, s.there)["f"]; got != "large" {
		t.Errorf("inside is %q", got)
	}
}

// A way that fails changes nothing that is remembered: the next one has all of it.
func TestFailureLosesNothing(t *testing.T) {
	s := newScene(t)
	s.begin(t)
	put(t, s.there, "f", "written inside")
	s.volume.broken = errors.New("the line is cut")
	if err := s.syncer.Fetch(t.Context(), s.volume); !errors.Is(err, s.volume.broken) {
		t.Errorf("got %v", err)
	}
	s.volume.broken = nil
	s.fetch(t)
	s.both(t, "at the second try", map[string]string{"f": "written inside"})
}

// liar is a volume whose supervisor was taken over.
type liar struct {
	*volume
	records []frame.Record
}

func (l liar) Export(_ context.Context, _ frame.ExportBody, _ io.Reader, read func(io.Reader) error) (frame.ExportReply, error) {
	var wire []byte
	for _, r := range l.records {
		wire = r.Append(wire)
		wire = append(wire, strings.Repeat("x", int(r.Size))...)
	}
	return frame.ExportReply{}, read(bytes.NewReader(wire))
}

func TestNothingOutsideIsWritten(t *testing.T) {
	outside := t.TempDir()
	link := frame.Record{Path: []byte("l"), Mode: frame.TypeLink, Link: []byte(outside)}
	for name, records := range map[string][]frame.Record{
		"upwards":                    {{Path: []byte("../f"), Mode: frame.TypeFile, Size: 1}},
		"through a link":             {link, {Path: []byte("l/f"), Mode: frame.TypeFile, Size: 1}},
		"through a link from before": {{Path: []byte("before/f"), Mode: frame.TypeFile, Size: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if err := os.Symlink(outside, filepath.Join(s.home, "before")); err != nil {
				t.Fatal(err)
			}
			if err := s.syncer.Fetch(t.Context(), liar{s.volume, records}); err == nil {
				t.Error("it was taken")
			}
			if got := files(t, outside); len(got) != 0 {
				t.Errorf("outside is %q", got)
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(s.home), "f")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("beside the folder is f (%v)", err)
			}
		})
	}
}
