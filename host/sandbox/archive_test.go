package sandbox_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// entry is one of a test's archive.
type entry struct {
	name, content, link string
	mode                int64
	typ                 byte // of tar; 0 is a file
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.typ, Mode: e.mode, Linkname: e.link, Size: int64(len(e.content)), ModTime: time.Unix(1e9, 0)}
		if e.typ == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipOf(t testing.TB, p []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: time.Unix(1e9, 0)}
		mode := fs.FileMode(e.mode)
		switch e.typ {
		case tar.TypeDir:
			mode |= fs.ModeDir
		case tar.TypeSymlink:
			mode |= fs.ModeSymlink
			e.content = e.link
		case tar.TypeFifo:
			mode |= fs.ModeNamedPipe
		case tar.TypeChar:
			mode |= fs.ModeDevice | fs.ModeCharDevice
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

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
	tree := []entry{
		{name: "./", typ: tar.TypeDir, mode: 0o755}, {name: "./d/", typ: tar.TypeDir, mode: 0o777},
		{name: "d/run", content: "#!", mode: 0o6755}, {name: "f", content: "x", mode: 0o666}, {name: "g", mode: 0o000},
		{name: "d/l", link: "../f", typ: tar.TypeSymlink}, {name: "deep/er/f", content: "y", mode: 0o644},
		{name: ".git/hooks/pre-commit", content: "evil", mode: 0o755}, {name: "sub/.GIT/Hooks/x", content: "evil", mode: 0o755},
		{name: ".git/hooksite", content: "z", mode: 0o644},
	}
	want := []string{
		"40755 d ->  = ", "100755 d/run ->  = #!", "100644 f ->  = x", "100600 g ->  = ", "120000 d/l -> ../f = ",
		"100644 deep/er/f ->  = y", "100644 .git/hooksite ->  = z",
	}
	hooked := append(append([]string{}, want[:6]...), "100755 .git/hooks/pre-commit ->  = evil", "100755 sub/.GIT/Hooks/x ->  = evil", want[6])
	tally := sandbox.Tally{Files: 5, Folders: 1, Links: 1, Bytes: 5, Skipped: 2}
	for _, c := range []struct {
		name    string
		archive []byte
		limits  sandbox.Limits
		want    []string
		tally   sandbox.Tally
	}{
		{"tar", tarOf(t, tree...), sandbox.Limits{}, want, tally},
		{"tar.gz", gzipOf(t, tarOf(t, tree...)), sandbox.Limits{}, want, tally},
		{"zip", zipOf(t, tree...), sandbox.Limits{}, want, tally},
		{"hooks wanted", tarOf(t, tree...), sandbox.Limits{Hooks: true}, hooked, sandbox.Tally{Files: 7, Folders: 1, Links: 1, Bytes: 13}},
		{"hooks wanted of a zip", zipOf(t, tree...), sandbox.Limits{Hooks: true}, hooked, sandbox.Tally{Files: 7, Folders: 1, Links: 1, Bytes: 13}},
		{"further name", tarOf(t, entry{name: "a", content: "x", mode: 0o644}, entry{name: "b", link: "./a", typ: tar.TypeLink, mode: 0o644}), sandbox.Limits{},
			[]string{"100644 a ->  = x", "100644 b -> a = "}, sandbox.Tally{Files: 2, Bytes: 1}},
		{"empty tar", tarOf(t), sandbox.Limits{}, []string{}, sandbox.Tally{}},
		{"empty zip", zipOf(t), sandbox.Limits{}, []string{}, sandbox.Tally{}},
		{"archive in it", tarOf(t, entry{name: "a.zip", content: "PK\x03\x04", mode: 0o644}), sandbox.Limits{}, []string{"100644 a.zip ->  = PK\x03\x04"}, sandbox.Tally{Files: 1, Bytes: 4}},
		{"git's comment", tarOf(t, entry{name: "a", mode: 0o644}), sandbox.Limits{}, []string{"100644 a ->  = "}, sandbox.Tally{Files: 1}},
		{"below a folder that is .git", tarOf(t, entry{name: "hooks/a", mode: 0o644}), sandbox.Limits{}, []string{"100644 hooks/a ->  = "}, sandbox.Tally{Files: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			tally, err := sandbox.Repack(iotest.OneByteReader(bytes.NewReader(c.archive)), c.limits, "", &out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, records(t, out.Bytes())); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if tally != c.tally {
				t.Errorf("tally %+v, want %+v", tally, c.tally)
			}
		})
	}
	var out bytes.Buffer
	tally, err := sandbox.Repack(bytes.NewReader(tarOf(t, entry{name: "hooks/a", mode: 0o644})), sandbox.Limits{}, "x/.git", &out)
	if err != nil || tally.Skipped != 1 || out.Len() != 0 {
		t.Errorf("into .git itself: %+v (%v)", tally, err)
	}
}

func TestArchiveIsRefused(t *testing.T) {
	const symlink, hard = tar.TypeSymlink, tar.TypeLink
	zeros := strings.Repeat("\x00", 4<<20)
	many := make([]entry, 300)
	for i := range many {
		many[i].name = fmt.Sprint("f", i)
	}
	for _, c := range []struct {
		name    string
		entries []entry
		limits  sandbox.Limits
		want    string
		only    string // "tar" or "zip"
	}{
		{name: "upwards", entries: []entry{{name: "../f"}}, want: "upwards"},
		{name: "upwards from inside", entries: []entry{{name: "a/../../f"}}, want: "upwards"},
		{name: "upwards but inside", entries: []entry{{name: "a/../f"}}, want: "upwards"},
		{name: "absolute", entries: []entry{{name: "/etc/passwd"}}, want: "absolute"},
		{name: "the folder as a file", entries: []entry{{name: "."}}, want: "no name"},
		{name: "zero byte", entries: []entry{{name: "a\x00b"}}, want: "zero byte", only: "zip"},
		{name: "long part", entries: []entry{{name: strings.Repeat("x", 256)}}, want: "longer than 255"},
		{name: "long name", entries: []entry{{name: strings.Repeat(strings.Repeat("x", 200)+"/", 21) + "f"}}, want: "longer than 4096"},
		{name: "deep", entries: []entry{{name: strings.Repeat("d/", 65) + "f"}}, want: "more than 64 parts"},
		{name: "link to an absolute path", entries: []entry{{name: "l", link: "/etc", typ: symlink}}, want: "absolute path"},
		{name: "link upwards", entries: []entry{{name: "d/l", link: "../../x", typ: symlink}}, want: "outside"},
		{name: "link that turns", entries: []entry{{name: "d/l", link: "x/../../y", typ: symlink}}, want: "outside or may be"},
		{name: "file through a link", entries: []entry{{name: "l", link: "d", typ: symlink}, {name: "l/f"}}, want: "two entries"},
		{name: "link in a folder's place", entries: []entry{{name: "l/f"}, {name: "l", link: "d", typ: symlink}}, want: "two entries"},
		{name: "file as a folder", entries: []entry{{name: "a"}, {name: "a/b"}}, want: "two entries"},
		{name: "named twice", entries: []entry{{name: "a"}, {name: "./a"}}, want: "two entries"},
		{name: "case alone", entries: []entry{{name: "Make"}, {name: "make"}}, want: "case alone"},
		{name: "case of a folder alone", entries: []entry{{name: "A/x"}, {name: "a/y"}}, want: "case alone"},
		{name: "case beyond ASCII", entries: []entry{{name: "straße\u212a"}, {name: "straßek"}}, want: "case alone"},
		{name: "other name of nothing", entries: []entry{{name: "h", link: "nosuch", typ: hard}}, want: "no file before it", only: "tar"},
		{name: "other name of the outside", entries: []entry{{name: "h", link: "../x", typ: hard}}, want: "upwards", only: "tar"},
		{name: "other name of a link", entries: []entry{{name: "l", link: "x", typ: symlink}, {name: "h", link: "l", typ: hard}}, want: "no file before it", only: "tar"},
		{name: "other name of a hook", entries: []entry{{name: ".git/hooks/x"}, {name: "h", link: ".git/hooks/x", typ: hard}}, want: "no file before it", only: "tar"},
		{name: "device", entries: []entry{{name: "dev", typ: tar.TypeChar}}, want: "neither file"},
		{name: "block device", entries: []entry{{name: "dev", typ: tar.TypeBlock}}, want: "neither file", only: "tar"},
		{name: "pipe", entries: []entry{{name: "pipe", typ: tar.TypeFifo}}, want: "neither file"},
		{name: "entries", entries: many, limits: sandbox.Limits{Entries: 200}, want: "more than 200 entries"},
		{name: "folders that are only part of names", entries: []entry{{name: strings.Repeat("d/", 60) + "f"}}, limits: sandbox.Limits{Entries: 50}, want: "more than 50 entries"},
		{name: "large entry", entries: []entry{{name: "f", content: "12345"}}, limits: sandbox.Limits{Entry: 4}, want: "larger than 4 bytes"},
		{name: "large as a whole", entries: []entry{{name: "f", content: "123"}, {name: "g", content: "123"}}, limits: sandbox.Limits{Bytes: 5}, want: "more than 5 bytes"},
		{name: "large archive", entries: []entry{{name: "f", content: fmt.Sprint(math.Pi)}}, limits: sandbox.Limits{Packed: 60}, want: "larger than 60 bytes"},
		{name: "bomb", entries: []entry{{name: "f", content: zeros}}, want: "100 times its size"},
	} {
		for format, archive := range map[string]func() []byte{
			"tar":    func() []byte { return tarOf(t, c.entries...) },
			"tar.gz": func() []byte { return gzipOf(t, tarOf(t, c.entries...)) },
			"zip":    func() []byte { return zipOf(t, c.entries...) },
		} {
			if c.only != "" && !strings.HasPrefix(format, c.only) || format == "tar" && c.name == "bomb" {
				continue
			}
			t.Run(c.name+"/"+format, func(t *testing.T) {
				_, err := sandbox.Repack(bytes.NewReader(archive()), c.limits, "", io.Discard)
				if !errors.Is(err, sandbox.ErrArchive) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		}
	}
}

// What is broken is the archive's fault, what fails to be read or written is not.
func TestBrokenArchive(t *testing.T) {
	good := []entry{{name: "f", content: strings.Repeat("0123456789", 1000)}}
	broken := errors.New("broken")
	lie := zipOf(t, entry{name: "f", content: "12345"})
	i := bytes.Index(lie, []byte("PK\x01\x02"))
	lie[i+24] = 4 // the uncompressed size in the table of contents
	for name, p := range map[string][]byte{
		"text": []byte(strings.Repeat("no archive ", 100)), "cut tar": tarOf(t, good...)[:2000], "cut gzip": gzipOf(t, tarOf(t, good...))[:100],
		"cut zip": zipOf(t, good...)[:100], "gzip of text": gzipOf(t, []byte(strings.Repeat("x", 2000))), "gzip of nonsense": []byte("\x1f\x8bxxxxxxxxxx"),
		"zip that lies about sizes": lie,
	} {
		if _, err := sandbox.Repack(bytes.NewReader(p), sandbox.Limits{}, "", io.Discard); !errors.Is(err, sandbox.ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string][]byte{"tar": tarOf(t, good...), "tar.gz": gzipOf(t, tarOf(t, good...)), "zip": zipOf(t, good...)} {
		half := io.MultiReader(bytes.NewReader(p[:len(p)/2]), iotest.ErrReader(broken))
		if _, err := sandbox.Repack(half, sandbox.Limits{}, "", io.Discard); !errors.Is(err, broken) || errors.Is(err, sandbox.ErrArchive) {
			t.Errorf("%s from a broken reader: %v", name, err)
		}
		if _, err := sandbox.Repack(bytes.NewReader(p), sandbox.Limits{}, "", iotest.TruncateWriter(writerFunc(func([]byte) (int, error) { return 0, broken }), 1<<20)); !errors.Is(err, broken) || errors.Is(err, sandbox.ErrArchive) {
			t.Errorf("%s to a broken writer: %v", name, err)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// FuzzArchive feeds hostile archives: whatever passes is a tree whose every path, link and size is harmless.
func FuzzArchive(f *testing.F) {
	tree := []entry{{name: "d/", typ: tar.TypeDir}, {name: "d/f", content: "x"}, {name: "l", link: "d/f", typ: tar.TypeSymlink}, {name: "h", link: "d/f", typ: tar.TypeLink}}
	f.Add(tarOf(f, tree...))
	f.Add(gzipOf(f, tarOf(f, tree...)))
	f.Add(zipOf(f, tree[:3]...))
	f.Add(tarOf(f, entry{name: "../x"}))
	f.Add(zipOf(f, entry{name: "/x"}, entry{name: "l", link: "/", typ: tar.TypeSymlink}))
	limits := sandbox.Limits{Bytes: 1 << 20, Entry: 1 << 19, Entries: 100, Packed: 1 << 20}
	f.Fuzz(func(t *testing.T, p []byte) {
		var out bytes.Buffer
		tally, err := sandbox.Repack(bytes.NewReader(p), limits, "", &out)
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
