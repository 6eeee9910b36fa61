package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/archive/archivetest"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// records reads what an archive came to: "mode path -> link = content" each.
func records(t testing.TB, p []byte) []string {
	t.Helper()
	got := []string{}
	in := frame.NewRecordReader(bytes.NewReader(p))
	for {
		r, err := in.Next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%o %s -> %s = %s", r.Mode, r.Path, r.Link, content))
	}
}

func TestArchiveIsRepacked(t *testing.T) {
	tree := []archivetest.Entry{
		{Name: "./", Type: tar.TypeDir, Mode: 0o755}, {Name: "./d/", Type: tar.TypeDir, Mode: 0o777},
		{Name: "d/run", Content: "#!", Mode: 0o6755}, {Name: "f", Content: "x", Mode: 0o666}, {Name: "g", Mode: 0o000},
		{Name: "d/l", Link: "../f", Type: tar.TypeSymlink}, {Name: "deep/er/f", Content: "y", Mode: 0o644},
		{Name: ".git/hooks/pre-commit", Content: "evil", Mode: 0o755}, {Name: "sub/.GIT/Hooks/x", Content: "evil", Mode: 0o755},
		{Name: ".git/hooksite", Content: "z", Mode: 0o644},
	}
	want := []string{
		"40755 d ->  = ", "100755 d/run ->  = #!", "100644 f ->  = x", "100600 g ->  = ", "120000 d/l -> ../f = ",
		"100644 deep/er/f ->  = y", "100644 .git/hooksite ->  = z",
	}
	hooked := append(append([]string{}, want[:6]...), "100755 .git/hooks/pre-commit ->  = evil", "100755 sub/.GIT/Hooks/x ->  = evil", want[6])
	tally := archive.Tally{Files: 5, Folders: 1, Links: 1, Bytes: 5, Skipped: 2, Left: []archive.Left{{Path: ".git/hooks/pre-commit", Why: archive.Hook}, {Path: "sub/.GIT/Hooks/x", Why: archive.Hook}}}
	for _, c := range []struct {
		name   string
		packed []byte
		limits archive.Limits
		want   []string
		tally  archive.Tally
	}{
		{"tar", archivetest.Tar(t, tree...), archive.Limits{}, want, tally},
		{"tar.gz", archivetest.Gzip(t, archivetest.Tar(t, tree...)), archive.Limits{}, want, tally},
		{"zip", archivetest.Zip(t, tree...), archive.Limits{}, want, tally},
		{"hooks wanted", archivetest.Tar(t, tree...), archive.Limits{Hooks: true}, hooked, archive.Tally{Files: 7, Folders: 1, Links: 1, Bytes: 13}},
		{"hooks wanted of a zip", archivetest.Zip(t, tree...), archive.Limits{Hooks: true}, hooked, archive.Tally{Files: 7, Folders: 1, Links: 1, Bytes: 13}},
		{"further name", archivetest.Tar(t, archivetest.Entry{Name: "a", Content: "x", Mode: 0o644}, archivetest.Entry{Name: "b", Link: "./a", Type: tar.TypeLink, Mode: 0o644}), archive.Limits{},
			[]string{"100644 a ->  = x", "100644 b -> a = "}, archive.Tally{Files: 2, Bytes: 1}},
		{"empty tar", archivetest.Tar(t), archive.Limits{}, []string{}, archive.Tally{}},
		{"empty zip", archivetest.Zip(t), archive.Limits{}, []string{}, archive.Tally{}},
		{"archive in it", archivetest.Tar(t, archivetest.Entry{Name: "a.zip", Content: "PK\x03\x04", Mode: 0o644}), archive.Limits{}, []string{"100644 a.zip ->  = PK\x03\x04"}, archive.Tally{Files: 1, Bytes: 4}},
		{"git's comment", archivetest.Tar(t, archivetest.Entry{Name: "a", Mode: 0o644}), archive.Limits{}, []string{"100644 a ->  = "}, archive.Tally{Files: 1}},
		{"below a folder that is .git", archivetest.Tar(t, archivetest.Entry{Name: "hooks/a", Mode: 0o644}), archive.Limits{}, []string{"100644 hooks/a ->  = "}, archive.Tally{Files: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			tally, err := archive.Repack(iotest.OneByteReader(bytes.NewReader(c.packed)), c.limits, "", &out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, records(t, out.Bytes())); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.tally, tally); diff != "" {
				t.Errorf("tally (-want +got):\n%s", diff)
			}
		})
	}
	var out bytes.Buffer
	tally, err := archive.Repack(bytes.NewReader(archivetest.Tar(t, archivetest.Entry{Name: "hooks/a", Mode: 0o644})), archive.Limits{}, "x/.git", &out)
	if err != nil || tally.Skipped != 1 || out.Len() != 0 {
		t.Errorf("into .git itself: %+v (%v)", tally, err)
	}
}

func TestArchiveIsRefused(t *testing.T) {
	const symlink, hard = tar.TypeSymlink, tar.TypeLink
	zeros := strings.Repeat("\x00", 4<<20)
	many := make([]archivetest.Entry, 300)
	for i := range many {
		many[i].Name = fmt.Sprint("f", i)
	}
	for _, c := range []struct {
		name    string
		entries []archivetest.Entry
		limits  archive.Limits
		want    string
		only    string // "tar" or "zip"
	}{
		{name: "upwards", entries: []archivetest.Entry{{Name: "../f"}}, want: "upwards"},
		{name: "upwards from inside", entries: []archivetest.Entry{{Name: "a/../../f"}}, want: "upwards"},
		{name: "upwards but inside", entries: []archivetest.Entry{{Name: "a/../f"}}, want: "upwards"},
		{name: "absolute", entries: []archivetest.Entry{{Name: "/etc/passwd"}}, want: "absolute"},
		{name: "the folder as a file", entries: []archivetest.Entry{{Name: "."}}, want: "no name"},
		{name: "zero byte", entries: []archivetest.Entry{{Name: "a\x00b"}}, want: "zero byte", only: "zip"},
		{name: "long part", entries: []archivetest.Entry{{Name: strings.Repeat("x", 256)}}, want: "longer than 255"},
		{name: "long name", entries: []archivetest.Entry{{Name: strings.Repeat(strings.Repeat("x", 200)+"/", 21) + "f"}}, want: "longer than 4096"},
		{name: "deep", entries: []archivetest.Entry{{Name: strings.Repeat("d/", 65) + "f"}}, want: "more than 64 parts"},
		{name: "link to an absolute path", entries: []archivetest.Entry{{Name: "l", Link: "/etc", Type: symlink}}, want: "absolute path"},
		{name: "link upwards", entries: []archivetest.Entry{{Name: "d/l", Link: "../../x", Type: symlink}}, want: "outside"},
		{name: "link that turns", entries: []archivetest.Entry{{Name: "d/l", Link: "x/../../y", Type: symlink}}, want: "outside or may be"},
		{name: "file through a link", entries: []archivetest.Entry{{Name: "l", Link: "d", Type: symlink}, {Name: "l/f"}}, want: "two entries"},
		{name: "link in a folder's place", entries: []archivetest.Entry{{Name: "l/f"}, {Name: "l", Link: "d", Type: symlink}}, want: "two entries"},
		{name: "file as a folder", entries: []archivetest.Entry{{Name: "a"}, {Name: "a/b"}}, want: "two entries"},
		{name: "named twice", entries: []archivetest.Entry{{Name: "a"}, {Name: "./a"}}, want: "two entries"},
		{name: "case alone", entries: []archivetest.Entry{{Name: "Make"}, {Name: "make"}}, want: "only in case"},
		{name: "case of a folder alone", entries: []archivetest.Entry{{Name: "A/x"}, {Name: "a/y"}}, want: "only in case"},
		{name: "case beyond ASCII", entries: []archivetest.Entry{{Name: "straße\u212a"}, {Name: "straßek"}}, want: "only in case"},
		{name: "other name of nothing", entries: []archivetest.Entry{{Name: "h", Link: "nosuch", Type: hard}}, want: "not a file before it", only: "tar"},
		{name: "other name of the outside", entries: []archivetest.Entry{{Name: "h", Link: "../x", Type: hard}}, want: "upwards", only: "tar"},
		{name: "other name of a link", entries: []archivetest.Entry{{Name: "l", Link: "x", Type: symlink}, {Name: "h", Link: "l", Type: hard}}, want: "not a file before it", only: "tar"},
		{name: "other name of a hook", entries: []archivetest.Entry{{Name: ".git/hooks/x"}, {Name: "h", Link: ".git/hooks/x", Type: hard}}, want: "not a file before it", only: "tar"},
		{name: "device", entries: []archivetest.Entry{{Name: "dev", Type: tar.TypeChar}}, want: "neither file"},
		{name: "block device", entries: []archivetest.Entry{{Name: "dev", Type: tar.TypeBlock}}, want: "neither file", only: "tar"},
		{name: "pipe", entries: []archivetest.Entry{{Name: "pipe", Type: tar.TypeFifo}}, want: "neither file"},
		{name: "entries", entries: many, limits: archive.Limits{Entries: 200}, want: "more than 200 entries"},
		{name: "folders that are only part of names", entries: []archivetest.Entry{{Name: strings.Repeat("d/", 60) + "f"}}, limits: archive.Limits{Entries: 50}, want: "more than 50 entries"},
		{name: "large entry", entries: []archivetest.Entry{{Name: "f", Content: "12345"}}, limits: archive.Limits{Entry: 4}, want: "larger than 4 bytes"},
		{name: "large as a whole", entries: []archivetest.Entry{{Name: "f", Content: "123"}, {Name: "g", Content: "123"}}, limits: archive.Limits{Bytes: 5}, want: "more than 5 bytes"},
		{name: "large archive", entries: []archivetest.Entry{{Name: "f", Content: fmt.Sprint(math.Pi)}}, limits: archive.Limits{Packed: 60}, want: "larger than 60 bytes"},
		{name: "bomb", entries: []archivetest.Entry{{Name: "f", Content: zeros}}, want: "100 times its size"},
	} {
		for format, packed := range map[string]func() []byte{
			"tar":    func() []byte { return archivetest.Tar(t, c.entries...) },
			"tar.gz": func() []byte { return archivetest.Gzip(t, archivetest.Tar(t, c.entries...)) },
			"zip":    func() []byte { return archivetest.Zip(t, c.entries...) },
		} {
			if c.only != "" && !strings.HasPrefix(format, c.only) || format == "tar" && c.name == "bomb" {
				continue
			}
			t.Run(c.name+"/"+format, func(t *testing.T) {
				_, err := archive.Repack(bytes.NewReader(packed()), c.limits, "", io.Discard)
				if !errors.Is(err, archive.ErrRefused) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		}
	}
}

// A malformed archive is the archive's fault; a failing read or write is not.
func TestBrokenArchive(t *testing.T) {
	good := []archivetest.Entry{{Name: "f", Content: strings.Repeat("0123456789", 1000)}}
	broken := errors.New("broken")
	lie := archivetest.Zip(t, archivetest.Entry{Name: "f", Content: "12345"})
	i := bytes.Index(lie, []byte("PK\x01\x02"))
	lie[i+24] = 4 // the uncompressed size in the table of contents
	for name, p := range map[string][]byte{
		"text": []byte(strings.Repeat("no archive ", 100)), "cut tar": archivetest.Tar(t, good...)[:2000], "cut gzip": archivetest.Gzip(t, archivetest.Tar(t, good...))[:100],
		"cut zip": archivetest.Zip(t, good...)[:100], "gzip of text": archivetest.Gzip(t, []byte(strings.Repeat("x", 2000))), "gzip of nonsense": []byte("\x1f\x8bxxxxxxxxxx"),
		"zip that lies about sizes": lie,
	} {
		if _, err := archive.Repack(bytes.NewReader(p), archive.Limits{}, "", io.Discard); !errors.Is(err, archive.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string][]byte{"tar": archivetest.Tar(t, good...), "tar.gz": archivetest.Gzip(t, archivetest.Tar(t, good...)), "zip": archivetest.Zip(t, good...)} {
		half := io.MultiReader(bytes.NewReader(p[:len(p)/2]), iotest.ErrReader(broken))
		if _, err := archive.Repack(half, archive.Limits{}, "", io.Discard); !errors.Is(err, broken) || errors.Is(err, archive.ErrRefused) {
			t.Errorf("%s from a broken reader: %v", name, err)
		}
		if _, err := archive.Repack(bytes.NewReader(p), archive.Limits{}, "", iotest.TruncateWriter(writerFunc(func([]byte) (int, error) { return 0, broken }), 1<<20)); !errors.Is(err, broken) || errors.Is(err, archive.ErrRefused) {
			t.Errorf("%s to a broken writer: %v", name, err)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// FuzzArchive feeds hostile archives: whatever passes is a tree whose every path, link and size is harmless.
func FuzzArchive(f *testing.F) {
	tree := []archivetest.Entry{{Name: "d/", Type: tar.TypeDir}, {Name: "d/f", Content: "x"}, {Name: "l", Link: "d/f", Type: tar.TypeSymlink}, {Name: "h", Link: "d/f", Type: tar.TypeLink}}
	f.Add(archivetest.Tar(f, tree...))
	f.Add(archivetest.Gzip(f, archivetest.Tar(f, tree...)))
	f.Add(archivetest.Zip(f, tree[:3]...))
	f.Add(archivetest.Tar(f, archivetest.Entry{Name: "../x"}))
	f.Add(archivetest.Zip(f, archivetest.Entry{Name: "/x"}, archivetest.Entry{Name: "l", Link: "/", Type: tar.TypeSymlink}))
	limits := archive.Limits{Bytes: 1 << 20, Entry: 1 << 19, Entries: 100, Packed: 1 << 20}
	f.Fuzz(func(t *testing.T, p []byte) {
		var out bytes.Buffer
		tally, err := archive.Repack(bytes.NewReader(p), limits, "", &out)
		if tally.Bytes > limits.Bytes && err == nil {
			t.Errorf("%d bytes passed", tally.Bytes)
		}
		links := map[string]bool{}
		in := frame.NewRecordReader(&out)
		for {
			r, next := in.Next()
			if next != nil {
				if err == nil && next != io.EOF {
					t.Errorf("record: %v", next)
				}
				return
			}
			name := string(r.Path)
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if links[dir] {
					t.Errorf("%q leads through a link", name)
				}
			}
			if r.Type() == frame.TypeLink {
				links[name] = true
				if to := path.Join(path.Dir(name), string(r.Link)); path.IsAbs(string(r.Link)) || to == ".." || strings.HasPrefix(to, "../") {
					t.Errorf("%q leads to %q", name, r.Link)
				}
			}
			if r.Mode&0o7022 != 0 || strings.Contains(strings.ToLower("/"+name+"/"), "/.git/hooks/") {
				t.Errorf("%q with mode %o passed", name, r.Mode)
			}
		}
	})
}
