package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/archive/archivetest"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// show prints a tree with modes, times and targets.
const show = `find . -mindepth 1 | sort | while read f; do printf '%s %s' "$f" "$(stat -c '%a %F' "$f")"
	if [ -L "$f" ]; then printf ' %s' "$(readlink "$f")"; elif [ -f "$f" ]; then printf ' %s' "$(stat -c %Y "$f") $(head -c 20 "$f")"; fi; echo; done`

func TestImport(t *testing.T) {
	s := open(t)
	tree := []archivetest.Entry{
		{Name: "d/", Type: tar.TypeDir, Mode: 0o750}, {Name: "d/run", Content: "#!", Mode: 0o4755}, {Name: "deep/er/f", Content: "f", Mode: 0o600},
		{Name: "l", Link: "d/run", Type: tar.TypeSymlink}, {Name: "d/again", Link: "d/run", Type: tar.TypeLink}, {Name: "ro/", Type: tar.TypeDir, Mode: 0o555},
		{Name: "ro/f", Mode: 0o444, Content: "r"}, {Name: ".git/hooks/x", Content: "evil", Mode: 0o755},
	}
	const want = `./d 750 directory
./d/again 755 regular file 1000000000 #!
./d/run 755 regular file 1000000000 #!
./deep 755 directory
./deep/er 755 directory
./deep/er/f 600 regular file 1000000000 f
./l 777 symbolic link d/run
./ro 755 directory
./ro/f 644 regular file 1000000000 r
`
	for name, packed := range map[string][]byte{"tar": archivetest.Tar(t, tree...), "tar.gz": archivetest.Gzip(t, archivetest.Tar(t, tree...))} {
		for _, dir := range []string{"new", "new/er/still", ".", "here"} {
			t.Run(name+" into "+dir, func(t *testing.T) {
				shell(t, s, "rm -rf -- * .[!.]*; mkdir here")
				tally, err := s.Import(t.Context(), dir, bytes.NewReader(packed), archive.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(archive.Tally{Files: 4, Folders: 2, Links: 1, Bytes: 4, Skipped: 1, Left: []archive.Left{{Path: ".git/hooks/x", Why: archive.Hook}}}, tally); diff != "" {
					t.Errorf("tally (-want +got):\n%s", diff)
				}
				got := shell(t, s, "rmdir here 2>/dev/null; cd "+dir+"; "+show)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("tree (-want +got):\n%s", diff)
				}
				if got := shell(t, s, "find . -name '.flynn*'; find . ! -user 1000"); got != "" {
					t.Errorf("left or not owned: %q", got)
				}
			})
		}
	}
}

// An import goes into what is there: files are replaced, folders joined, and what is in the way is kept.
func TestImportMerges(t *testing.T) {
	s := open(t)
	reset := func() {
		shell(t, s, "rm -rf -- * ; mkdir -p a/b; echo old >a/f; echo old >a/b/g; ln -s /etc/passwd a/l; echo stays >a/s")
	}
	reset()
	good := archivetest.Tar(t, archivetest.Entry{Name: "a/f", Content: "new", Mode: 0o600}, archivetest.Entry{Name: "a/b/h", Content: "new", Mode: 0o644}, archivetest.Entry{Name: "a/l", Content: "new", Mode: 0o644})
	if _, err := s.Import(t.Context(), "", bytes.NewReader(good), archive.Limits{}); err != nil {
		t.Fatal(err)
	}
	if got := shell(t, s, "cat a/f a/b/g a/b/h a/l a/s; ls -A . a"); got != "newold\nnewnewstays\n.:\na\n\na:\nb\nf\nl\ns\n" {
		t.Errorf("merged: %q", got)
	}
	for _, c := range []struct {
		name string
		e    archivetest.Entry
		want error
	}{
		{"file over a folder", archivetest.Entry{Name: "a/b", Content: "x"}, machine.ErrNotRegular},
		{"folder over a file", archivetest.Entry{Name: "a/f/x", Content: "x"}, machine.ErrNotRegular},
		{"folder over a link", archivetest.Entry{Name: "a/l/x", Content: "x"}, machine.ErrNotRegular},
		{"refused at its end", archivetest.Entry{Name: "../x"}, archive.ErrRefused},
		{"too large at its end", archivetest.Entry{Name: "z", Content: strings.Repeat("x", 2000)}, archive.ErrRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			reset()
			before := shell(t, s, show)
			packed := archivetest.Tar(t, archivetest.Entry{Name: "a/s", Content: "new"}, archivetest.Entry{Name: "first", Content: strings.Repeat("y", 1000)}, c.e)
			for _, dir := range []string{"", "not/there"} {
				if _, err := s.Import(t.Context(), dir, bytes.NewReader(packed), archive.Limits{Entry: 1000}); !errors.Is(err, c.want) && (dir == "" || errors.Is(c.want, archive.ErrRefused)) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if dir != "" && !errors.Is(c.want, archive.ErrRefused) {
					continue
				}
				if diff := cmp.Diff(before, shell(t, s, show)); diff != "" {
					t.Errorf("left (-before +after):\n%s", diff)
				}
			}
		})
	}
	if _, err := s.Import(t.Context(), "../x", bytes.NewReader(good), archive.Limits{}); !errors.Is(err, machine.ErrOutside) {
		t.Errorf("outside: %v", err)
	}
	shell(t, s, "ln -s / out")
	if _, err := s.Import(t.Context(), "out/tmp", bytes.NewReader(good), archive.Limits{}); !errors.Is(err, machine.ErrOutside) {
		t.Errorf("through a link: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	long := io.MultiReader(bytes.NewReader(archivetest.Tar(t, archivetest.Entry{Name: "f", Content: strings.Repeat("x", 1<<20)})[:1<<20]), readerFunc(func([]byte) (int, error) { cancel(); return 0, ctx.Err() }))
	if _, err := s.Import(ctx, "given-up", long, archive.Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if got := shell(t, s, "ls -A"); got != "a\nout\n" {
		t.Errorf("left %q", got)
	}
}

func TestExport(t *testing.T) {
	s := open(t)
	shell(t, s, `mkdir -p d/sub d/empty; printf abc >d/f; head -c 300000 /dev/zero >d/sub/large; ln -s /etc/passwd d/l; mkfifo d/pipe
		chmod 751 d/sub; chmod 4640 d/f; echo secret >d/closed; chmod 0 d/closed; touch -d @1000000000 d/f; printf x >"d/$(printf 'bad\377')"; echo no >outside`)
	var out bytes.Buffer
	tally, err := s.Export(t.Context(), "d", &out, archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	left := []archive.Left{{Path: "pipe", Why: archive.Special}, {Path: "closed", Why: archive.Closed}}
	if diff := cmp.Diff(archive.Tally{Files: 3, Folders: 2, Links: 1, Bytes: 300004, Skipped: 2, Left: left}, tally); diff != "" {
		t.Errorf("tally (-want +got):\n%s", diff)
	}
	var got []string
	for in := tar.NewReader(&out); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%c %o %s %s %d", h.Typeflag, h.Mode, h.Name, h.Linkname, len(content)))
		if h.Name == "f" && (h.ModTime.Unix() != 1e9 || string(content) != "abc") {
			t.Errorf("f is of %v and holds %q", h.ModTime, content)
		}
	}
	want := []string{"0 644 bad\xff  1", "5 755 empty/  0", "0 640 f  3", "2 777 l /etc/passwd 0", "5 751 sub/  0", "0 644 sub/large  300000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tar (-want +got):\n%s", diff)
	}
	for path, want := range map[string]error{"nosuch": machine.ErrNotFound, "d/f": machine.ErrNotRegular, "..": machine.ErrOutside, "d/l": machine.ErrOutside} {
		if _, err := s.Export(t.Context(), path, io.Discard, archive.Limits{}); !errors.Is(err, want) {
			t.Errorf("export %s: %v, want %v", path, err, want)
		}
	}
	if _, err := s.Export(t.Context(), "d", fullDisk{}, archive.Limits{}); !errors.Is(err, errFull) {
		t.Errorf("to a full disk: %v", err)
	}
	if got := shell(t, s, "echo fine"); got != "fine\n" {
		t.Errorf("afterwards: %q", got)
	}
}

var errFull = errors.New("full")

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// A tree that is swapped for the outside while it is packed is packed or skipped, but nothing of the outside is.
func TestExportRace(t *testing.T) {
	t.Parallel()
	s := open(t)
	shell(t, s, "mkdir -p t/d; echo inside >t/d/passwd; echo inside >t/hostname")
	p, err := s.Start(t.Context(), machine.Command{Script: `while :; do
		mv t/d old; ln -s /etc t/d; rm t/d; mv old t/d; ln -sf /etc/hostname t/hostname; rm t/hostname; mkfifo t/hostname; rm t/hostname; echo inside >n; mv n t/hostname; done`})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.Kill(context.WithoutCancel(t.Context()), p.ID) }()
	for range 1000 {
		var out bytes.Buffer
		if _, err := s.Export(t.Context(), "t", &out, archive.Limits{}); err != nil && !errors.Is(err, machine.ErrNotFound) {
			t.Fatal(err)
		}
		for in := tar.NewReader(&out); ; {
			h, err := in.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if content, _ := io.ReadAll(in); h.Typeflag == tar.TypeReg && string(content) != "inside\n" {
				t.Fatalf("%s holds %q", h.Name, content)
			}
		}
	}
}

// Records from a supervisor that has been taken over end it.
func TestHostileExport(t *testing.T) {
	file := frame.Record{Path: []byte("f"), Mode: frame.TypeFile}
	for name, records := range map[string][]frame.Record{
		"upwards":           {{Path: []byte("../f"), Mode: frame.TypeFile}},
		"twice":             {file, file},
		"through a link":    {{Path: []byte("l"), Mode: frame.TypeLink, Link: []byte("/")}, {Path: []byte("l/f"), Mode: frame.TypeFile}},
		"device":            {{Path: []byte("d"), Mode: unix.S_IFCHR}},
		"another name":      {file, {Path: []byte("g"), Mode: frame.TypeFile, Link: []byte("f")}},
		"through a file":    {file, {Path: []byte("f/f"), Mode: frame.TypeFile}},
		"impossible length": {{Path: []byte("f"), Mode: frame.TypeFile, Size: -5}},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			d := &fakeDriver{play: func(c *fakeContainer) {
				defer c.conn.Close()
				id := c.await(frame.Export)
				var wire []byte
				for _, r := range records {
					wire = r.Append(wire)
				}
				c.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: wire},
					frame.Frame{Type: frame.Reply, ID: id, Payload: frame.Encode(frame.ExportReply{})})
			}}
			m := fakeManager(t, d)
			s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Export(t.Context(), "", io.Discard, archive.Limits{}); !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			if err := m.DestroyAll(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Files that the workload does not own keep their owner and mode, or stay as they are.
func TestForeignFilesKeepTheirOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make other people's files")
	}
	var root string
	s := open(t, func(c *sandbox.Config) { root = c.WorkspaceRoot })
	folders, err := filepath.Glob(filepath.Join(root, "chat-1-*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	for name, mode := range map[string]os.FileMode{"shared": 0o666, "closed": 0o644} {
		file := filepath.Join(folders[0], name)
		if err := errors.Join(os.WriteFile(file, []byte("a long old content"), 0o600), os.Chmod(file, mode), os.Chown(file, 1234, 4321)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.WriteFile(t.Context(), "shared", []byte("new"), 0o600); err != nil {
		t.Errorf("a file that everybody may write: %v", err)
	}
	if err := s.WriteFile(t.Context(), "closed", []byte("new"), 0); err == nil {
		t.Error("a file that only its owner may write was taken")
	}
	if got := shell(t, s, "stat -c '%a %u %g %n' *; cat shared closed; ls -A"); got != "644 1234 4321 closed\n666 1234 4321 shared\nnewa long old contentclosed\nshared\n" {
		t.Errorf("got %q", got)
	}
}
