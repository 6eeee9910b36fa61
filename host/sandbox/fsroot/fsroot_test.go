package fsroot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

func tree(t *testing.T, dir string) fsroot.Tree {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return fsroot.Tree{Root: root}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// wire is what a tree sends.
func wire(t *testing.T, from fsroot.Tree) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	must(t, from.Walk(t.Context(), func(e fsroot.Entry) error { return e.Send(&out) }))
	return &out
}

// show reads records: "mode path -> link = content" each.
func show(t *testing.T, in io.Reader) []string {
	t.Helper()
	all := []string{}
	for r := frame.NewRecordReader(in); ; {
		record, err := r.Next()
		if err == io.EOF {
			return all
		}
		content, err2 := io.ReadAll(r)
		must(t, err, err2)
		all = append(all, fmt.Sprintf("%o %s -> %s = %s", record.Mode, record.Path, record.Link, content))
	}
}

// fill makes a folder with an entry of each kind.
func fill(t *testing.T, dir string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t,
		os.MkdirAll(at("d/empty"), 0o755), os.WriteFile(at("d/f"), []byte("text"), 0o640), os.WriteFile(at("run"), []byte("#!"), 0o755), os.Chmod(at("run"), 0o4755),
		os.Symlink("/etc/passwd", at("d/l")), os.Symlink("nowhere", at("dangling")), syscall.Mkfifo(at("pipe"), 0o600), os.Chmod(at("d"), 0o750),
	)
}

func filled() []string {
	return []string{
		"40750 d ->  = ", "40755 d/empty ->  = ", "100640 d/f ->  = text", "120777 d/l -> /etc/passwd = ", "120777 dangling -> nowhere = ", "100755 run ->  = #!",
	}
}

// A tree that is walked out of one folder and put into another is the same there, over itself too.
func TestTreeIsCopied(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	fill(t, here)
	from, to := tree(t, here), tree(t, there)
	for range 2 {
		in := frame.NewRecordReader(wire(t, from))
		for {
			r, err := in.Next()
			if err == io.EOF {
				break
			}
			must(t, err, to.Put(r, in))
		}
		if diff := cmp.Diff(filled(), show(t, wire(t, to))); diff != "" {
			t.Errorf("copy (-want +got):\n%s", diff)
		}
	}
	was, err1 := os.Stat(filepath.Join(here, "run"))
	is, err2 := os.Stat(filepath.Join(there, "run"))
	must(t, err1, err2)
	if !was.ModTime().Equal(is.ModTime()) {
		t.Errorf("time %v, want %v", is.ModTime(), was.ModTime())
	}
}

// No name of a record, and nothing in its way, leads to a file outside of the folder.
func TestPutStaysInside(t *testing.T) {
	file := func(name string) frame.Record {
		return frame.Record{Path: []byte(name), Mode: frame.TypeFile | 0o644, Size: 4}
	}
	for _, c := range []struct {
		name   string
		record frame.Record
		passes bool
	}{
		{"upwards", file("../outside/f"), false}, {"absolute", file("/tmp/f"), false},
		{"through a link to a folder", file("out/f"), false}, {"through a link upwards", file("up/outside/f"), false},
		{"in a link's place", file("l"), true},
		{"folder in a link's place", frame.Record{Path: []byte("out"), Mode: frame.TypeFolder | 0o777}, false},
		{"link in a link's place", frame.Record{Path: []byte("l"), Mode: frame.TypeLink, Link: []byte("/etc")}, true},
	} {
		for _, mirror := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, "/mirror=", mirror), func(t *testing.T) {
				base := t.TempDir()
				inside, outside := filepath.Join(base, "inside"), filepath.Join(base, "outside")
				must(t, os.Mkdir(inside, 0o755), os.Mkdir(outside, 0o755), os.WriteFile(filepath.Join(outside, "f"), []byte("kept"), 0o600),
					os.Symlink(outside, filepath.Join(inside, "out")), os.Symlink("..", filepath.Join(inside, "up")),
					os.Symlink(filepath.Join(outside, "f"), filepath.Join(inside, "l")))
				to := tree(t, inside)
				to.Mirror = mirror
				err := to.Put(c.record, strings.NewReader("evil"))
				if wants := c.passes || mirror && c.record.Type() == frame.TypeFolder; (err == nil) != wants {
					t.Errorf("got %v", err)
				}
				if got := show(t, wire(t, tree(t, outside))); !slices.Equal(got, []string{"100600 f ->  = kept"}) {
					t.Errorf("outside is %q", got)
				}
				if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o755 {
					t.Errorf("the outside has mode %v (%v)", info.Mode(), err)
				}
			})
		}
	}
}

// An entry of another kind is in the way of a copy, and replaced in a mirror.
func TestPutOverAnotherKind(t *testing.T) {
	for _, mirror := range []bool{false, true} {
		dir := t.TempDir()
		fill(t, dir)
		to := tree(t, dir)
		to.Mirror = mirror
		for _, r := range []frame.Record{{Path: []byte("d"), Mode: frame.TypeFile | 0o600}, {Path: []byte("run"), Mode: frame.TypeFolder | 0o700}} {
			if err := to.Put(r, strings.NewReader("")); (err == nil) != mirror {
				t.Errorf("mirror %v: %s: %v", mirror, r.Path, err)
			}
		}
		want := filled()
		if mirror {
			want = []string{"100600 d ->  = ", "120777 dangling -> nowhere = ", "40700 run ->  = "}
		}
		if diff := cmp.Diff(want, show(t, wire(t, to))); diff != "" {
			t.Errorf("mirror %v (-want +got):\n%s", mirror, diff)
		}
	}
}

// A file whose content does not come as a whole is not there, nor is its draft.
func TestPutOfHalfAFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600))
	to := tree(t, dir)
	r := frame.Record{Path: []byte("f"), Mode: frame.TypeFile | 0o644, Size: 9}
	if err := to.Put(r, strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if got := show(t, wire(t, to)); !slices.Equal(got, []string{"100600 f ->  = old"}) {
		t.Errorf("left: %q", got)
	}
}

func TestPutForAnOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can hand files over")
	}
	dir := t.TempDir()
	to := tree(t, dir)
	to.Owner = &workspace.Owner{UID: 1234, GID: 4321}
	for _, r := range []frame.Record{
		{Path: []byte("d"), Mode: frame.TypeFolder | 0o755}, {Path: []byte("d/f"), Mode: frame.TypeFile | 0o600}, {Path: []byte("l"), Mode: frame.TypeLink, Link: []byte("/etc/passwd")},
	} {
		must(t, to.Put(r, strings.NewReader("")))
		info, err := os.Lstat(filepath.Join(dir, string(r.Path)))
		must(t, err)
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 4321 {
			t.Errorf("%s belongs to %d:%d", r.Path, st.Uid, st.Gid)
		}
	}
}

// A file that changes between Walk and Send is sent as its record says, or not at all.
func TestSendOfWhatHasChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(file string) error
		want   []string
	}{
		{"longer", func(file string) error { return os.WriteFile(file, []byte("text and more"), 0o600) }, []string{"100600 f ->  = text"}},
		{"shorter", func(file string) error { return os.WriteFile(file, []byte("t"), 0o600) }, []string{"100600 f ->  = t\x00\x00\x00"}},
		{"gone", os.Remove, nil},
		{"a link", func(file string) error { return errors.Join(os.Remove(file), os.Symlink("/etc/passwd", file)) }, nil},
		{"a pipe", func(file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "f")
			must(t, os.WriteFile(file, []byte("text"), 0o600))
			var out bytes.Buffer
			err := tree(t, dir).Walk(t.Context(), func(e fsroot.Entry) error {
				must(t, c.change(file))
				return e.Send(&out)
			})
			if (err == nil) != (c.want != nil) || c.want == nil && out.Len() > 0 {
				t.Fatalf("%d bytes were sent (%v)", out.Len(), err)
			}
			if got := show(t, &out); c.want != nil && !slices.Equal(got, c.want) {
				t.Errorf("sent %q, want %q", got, c.want)
			}
		})
	}
}

// A mirror's drafts, which a crash leaves, are none of its entries.
func TestWalkPassesDraftsOver(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, ".flynn-DRAFT"), nil, 0o600))
	from := tree(t, dir)
	if got := show(t, wire(t, from)); len(got) != 1 {
		t.Errorf("a copy is of %q", got)
	}
	from.Mirror = true
	if got := show(t, wire(t, from)); len(got) != 0 {
		t.Errorf("a mirror has %q", got)
	}
}

func TestWalkIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err := tree(t, dir).Walk(ctx, func(fsroot.Entry) error { seen++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("%d entries were seen (%v)", seen, err)
	}
	if err := tree(t, filepath.Join(dir, "d")).Walk(t.Context(), func(fsroot.Entry) error { return fs.ErrInvalid }); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
