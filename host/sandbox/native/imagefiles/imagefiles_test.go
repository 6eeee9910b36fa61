package imagefiles_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/native/imagefiles"
)

// entry is one of a layer, or of an archive.
type entry struct {
	name, text string
	kind       byte // tar.TypeReg by default
}

func pack(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644}
		switch e.kind {
		case 0, tar.TypeReg:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(e.text))
		case tar.TypeDir:
			h.Mode = 0o755
		default:
			h.Linkname = e.text
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var about = entry{name: "about.json", text: `{"os":"linux","architecture":"` + runtime.GOARCH + `","config":{"Env":["A=1"]}}`}

// save writes an archive of layers as docker save does: what describes it comes last.
func save(t *testing.T, layers ...[]entry) string {
	t.Helper()
	var all []entry
	var names []string
	for i, l := range layers {
		name := string(rune('a'+i)) + "/layer.tar"
		all, names = append(all, entry{name: name, text: string(pack(t, l))}), append(names, `"`+name+`"`)
	}
	return write(t, pack(t, append(all, about, entry{name: "manifest.json", text: `[{"Config":"about.json","Layers":[` + strings.Join(names, ",") + `]}]`})))
}

func write(t *testing.T, archive []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// list shows a folder: a line for each entry.
func list(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		line := strings.TrimPrefix(path, root+"/")
		switch {
		case d.IsDir():
			line += "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + to
		case d.Type().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(text)
		default:
			line += " " + d.Type().String()
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLayers(t *testing.T) {
	const dir, link, hard = tar.TypeDir, tar.TypeSymlink, tar.TypeLink
	for _, c := range []struct {
		name   string
		layers [][]entry
		want   []string
	}{
		{"a file is replaced", [][]entry{{{name: "a", text: "1"}}, {{name: "./a", text: "2"}}}, []string{"a 2"}},
		{"without the folders above", [][]entry{{{name: "a/b/c", text: "1"}}}, []string{"a/", "a/b/", "a/b/c 1"}},
		{"a file is removed", [][]entry{{{name: "a/x", text: "1"}, {name: "a/y", text: "2"}}, {{name: "a/.wh.x"}}}, []string{"a/", "a/y 2"}},
		{"a folder is removed", [][]entry{{{name: "a/b/x", text: "1"}}, {{name: "a/.wh.b"}}}, []string{"a/"}},
		{"a folder is emptied", [][]entry{{{name: "a/x", text: "1"}}, {{name: "a/new", text: "2"}, {name: "a/.wh..wh..opq"}}}, []string{"a/", "a/new 2"}},
		{"what is removed was never there", [][]entry{{{name: "a/.wh.b"}, {name: "c/.wh..wh..opq"}}}, nil},
		{"a folder becomes a file, a file a link, a link a folder", [][]entry{
			{{name: "a", kind: dir}, {name: "a/x", text: "1"}, {name: "b", text: "1"}, {name: "c", kind: link, text: "/etc"}},
			{{name: "a", text: "2"}, {name: "b", kind: link, text: "a"}, {name: "c", kind: dir}, {name: "c/x", text: "3"}},
		}, []string{"a 2", "b -> a", "c/", "c/x 3"}},
		{"another name of a file", [][]entry{{{name: "a", text: "1"}, {name: "b/c", kind: hard, text: "a"}}}, []string{"a 1", "b/", "b/c 1"}},
		{"links lead anywhere, and are not followed", [][]entry{{{name: "a", kind: link, text: "/etc/passwd"}, {name: "b", kind: link, text: "../../../x"}}}, []string{"a -> /etc/passwd", "b -> ../../../x"}},
		{"through a link inside", [][]entry{{{name: "usr/lib", kind: dir}, {name: "lib", kind: link, text: "usr/lib"}}, {{name: "lib/x", text: "1"}}},
			[]string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/x 1"}},
		{"devices are left out", [][]entry{{{name: "dev/null", kind: tar.TypeChar}, {name: "f", kind: tar.TypeFifo}, {name: "b", kind: tar.TypeBlock}}}, nil},
		{"names with controls", [][]entry{{{name: "a\n\x1b[2J", text: "1"}}}, []string{"a\n\x1b[2J 1"}},
		{"dots stay inside", [][]entry{{{name: "../../a", text: "1"}, {name: "/b/../c", text: "2"}}}, []string{"a 1", "c 2"}},
		{"the root", [][]entry{{{name: "./", kind: dir}, {name: "/", kind: dir}}}, nil},
		{"no layers", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := imagefiles.New(t.TempDir(), imagefiles.Limits{})
			image, err := s.Open(t.Context(), save(t, c.layers...))
			if err != nil {
				t.Fatal(err)
			}
			if got := list(t, image.Root); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if !slices.Equal(image.Env, []string{"A=1"}) {
				t.Errorf("variables %q", image.Env)
			}
		})
	}
}

// TestHostileArchives are refused, write nothing outside of their folder, and leave nothing.
func TestHostileArchives(t *testing.T) {
	const link, hard = tar.TypeSymlink, tar.TypeLink
	manifest := func(text string) entry { return entry{name: "manifest.json", text: text} }
	one := manifest(`[{"Config":"about.json","Layers":["l"]}]`)
	layer := func(entries ...entry) []byte {
		return pack(t, []entry{about, one, {name: "l", text: string(pack(t, entries))}})
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(pack(t, []entry{{name: "a", text: strings.Repeat("\x00", 2<<20)}})); err != nil {
		t.Fatal(err)
	}
	z.Close()
	for _, c := range []struct {
		name    string
		archive []byte
		says    string
	}{
		{"nothing", nil, "no file \"manifest.json\""},
		{"nonsense", []byte(strings.Repeat("\x1b[2J'\"$(id)", 400)), "not an archive of an image"},
		{"cut", layer(entry{name: "a", text: strings.Repeat("x", 5000)})[:6000], "EOF"},
		{"two images", pack(t, []entry{about, manifest(`[{},{}]`)}), "it has 2 images"},
		{"no description", pack(t, []entry{one}), `no file "about.json"`},
		{"a description that is no JSON", pack(t, []entry{manifest("[{\x00")}), `its file "manifest.json"`},
		{"a huge description", pack(t, []entry{manifest(strings.Repeat(" ", 5<<20))}), "longer than"},
		{"another processor", pack(t, []entry{one, {name: "about.json", text: `{"os":"linux","architecture":"\u001b[2J"}`}}), `on "\x1b[2J"`},
		{"a part that is itself", pack(t, []entry{about, one, {name: "l", kind: link, text: "l"}}), `no file "l"`},
		{"a part outside", pack(t, []entry{about, one, {name: "l", kind: link, text: "../../../etc/passwd"}}), `no file "l"`},
		{"huge variables", pack(t, []entry{one, {name: "about.json", text: `{"os":"linux","architecture":"` + runtime.GOARCH + `","config":{"Env":["` + strings.Repeat("A", 70<<10) + `"]}}`}}), "variables"},
		{"through a link outside", layer(entry{name: "a", kind: link, text: filepath.Dir(outside)}, entry{name: "a/outside", text: "theirs"}), "escapes"},
		{"removal through a link outside", layer(entry{name: "a", kind: link, text: filepath.Dir(outside)}, entry{name: "a/.wh.outside"}), "escapes"},
		{"all removed through a link outside", layer(entry{name: "a", kind: link, text: filepath.Dir(outside)}, entry{name: "a/.wh..wh..opq"}), "escapes"},
		{"another name of a file outside", layer(entry{name: "a", kind: hard, text: "../../../../" + outside}), "no such file"},
		{"another name through a link outside", layer(entry{name: "d", kind: link, text: filepath.Dir(outside)}, entry{name: "a", kind: hard, text: "d/outside"}), "escapes"},
		{"another name of a folder", layer(entry{name: "d", kind: tar.TypeDir}, entry{name: "a", kind: hard, text: "d"}), "no file"},
		{"removal of dots", layer(entry{name: "a/.wh..."}, entry{name: "a/.wh..", text: ""}), "removes nothing"},
		{"a long name", layer(entry{name: strings.Repeat("a", 300), text: "1"}), "longer than"},
		{"a deep name", layer(entry{name: strings.Repeat("a/", 3000) + "a", text: "1"}), "longer than"},
		{"many entries", layer(make20()...), "more than is allowed"},
		{"a bomb", pack(t, []entry{about, one, {name: "l", text: bomb.String()}}), "more than is allowed"},
		{"zstd", pack(t, []entry{about, one, {name: "l", text: "\x28\xb5\x2f\xfd...."}}), "zstd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			path := write(t, c.archive)
			image, err := imagefiles.New(folder, imagefiles.Limits{Bytes: 1 << 20, Entries: 16}).Open(t.Context(), path)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "of [sandbox]") || strings.ContainsAny(err.Error(), "\x00\x1b\n") {
				t.Errorf("%+v, %v, want %q", image, err, c.says)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			if text, err := os.ReadFile(outside); err != nil || string(text) != "mine" {
				t.Errorf("the file outside is %q, %v", text, err)
			}
		})
	}
}

func make20() (all []entry) {
	for i := range 20 {
		all = append(all, entry{name: string(rune('a' + i)), text: "1"})
	}
	return all
}

// TestOpen: an archive is unpacked once, anew when it has changed, and not at all when its context has ended; a folder is used as it is.
func TestOpen(t *testing.T) {
	folder, path := t.TempDir(), save(t, []entry{{name: "a", text: "1"}})
	s := imagefiles.New(folder, imagefiles.Limits{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if image, err := s.Open(ended, path); err == nil {
		t.Errorf("opened %+v", image)
	}
	first, err := s.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := imagefiles.New(folder, imagefiles.Limits{Bytes: 1}).Open(t.Context(), path); err != nil || again.Root != first.Root {
		t.Errorf("unpacked again: %+v, %v", again, err)
	}
	if err := os.Rename(save(t, []entry{{name: "a", text: "22"}}), path); err != nil {
		t.Fatal(err)
	}
	second, err := s.Open(t.Context(), path)
	if err != nil || !slices.Equal(list(t, second.Root), []string{"a 22"}) || !slices.Equal(list(t, first.Root), []string{"a 1"}) {
		t.Errorf("changed: %+v, %v", second, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(first.Root, link); err != nil {
		t.Fatal(err)
	}
	if image, err := s.Open(t.Context(), link); err != nil || image.Root != first.Root {
		t.Errorf("a folder: %+v, %v", image, err)
	}
	for _, path := range []string{filepath.Join(folder, "none"), os.DevNull} {
		if image, err := s.Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "of [sandbox]") {
			t.Errorf("%s: %+v, %v", path, image, err)
		}
	}
}
