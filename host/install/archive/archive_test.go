package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/folder"
)

var small = folder.Bounds{Files: 4, Bytes: 1 << 20}

// entry is one member of a test's archive.
type entry struct {
	name, text string
	kind       byte
	link       string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o755, Size: int64(len(e.text))}
		switch e.kind {
		case 0:
			h.Typeflag = tar.TypeReg
		case tar.TypeXGlobalHeader:
			h = &tar.Header{Typeflag: e.kind, PAXRecords: map[string]string{"comment": "from git"}}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || packed.Close() != nil {
		t.Fatal("close the archive")
	}
	return out.Bytes()
}

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o755)
		if e.kind == tar.TypeSymlink {
			h.SetMode(0o777 | os.ModeSymlink)
			e.text = e.link
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read returns the files of an archive as "name mode text".
func read(content []byte, max folder.Bounds) ([]string, error) {
	var out []string
	err := Read(bytes.NewReader(content), max, func(f File) error {
		text, err := io.ReadAll(f.Content)
		out = append(out, fmt.Sprintf("%s %t %s", f.Name, f.Program, text))
		return err
	})
	return out, err
}

func TestRead(t *testing.T) {
	good := []entry{{name: "a", text: "one"}, {name: "bin/b", text: "two"}}
	const want = "[a true one bin/b true two]"
	for name, content := range map[string][]byte{
		"tar":                    tarOf(t, good...),
		"tar, dot slash":         tarOf(t, entry{name: "./a", text: "one"}, entry{name: "./bin/b", text: "two"}),
		"tar with folders":       tarOf(t, append([]entry{{name: "bin/", kind: tar.TypeDir}}, good...)...),
		"tar of git":             tarOf(t, append([]entry{{kind: tar.TypeXGlobalHeader}}, good...)...),
		"zip":                    zipOf(t, good...),
		"zip with folders":       zipOf(t, append([]entry{{name: "bin/"}}, good...)...),
		"as many files as fit":   tarOf(t, append(good, entry{name: "c"}, entry{name: "d"})...),
		"as many bytes as there": tarOf(t, append(good, entry{name: "c", text: strings.Repeat("c", 1<<20-6)})...),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(content, small)
			if err != nil || fmt.Sprint(got[:2]) != want {
				t.Errorf("got %.100q, %v", got, err)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	good := []entry{{name: "a", text: "one"}, {name: "bin/b", text: "two"}}
	with := func(e entry) []entry { return append(good[:2:2], e) }
	damaged := tarOf(t, good...)
	damaged[len(damaged)-5] ^= 1 // in the checksum
	zeros := strings.Repeat("\x00", 1<<20)
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"no archive":                   {[]byte("hello"), "neither a .tar.gz nor a .zip"},
		"empty":                        {nil, "neither a .tar.gz nor a .zip"},
		"tar, cut short":               {damaged[:len(damaged)/2], "unexpected EOF"},
		"tar, checksum cut":            {tarOf(t, good...)[:len(damaged)-3], "unexpected EOF"},
		"tar, damaged":                 {damaged, "checksum"},
		"tar, more behind it":          {append(tarOf(t, good...), "more than a header"...), "gzip"},
		"tar, climbs out":              {tarOf(t, with(entry{name: "../evil"})...), `"../evil" is not a name`},
		"tar, absolute":                {tarOf(t, with(entry{name: "/etc/evil"})...), `"/etc/evil" is not a name`},
		"tar, climbs inside":           {tarOf(t, with(entry{name: "bin/../../evil"})...), "is not a name"},
		"tar, not clean":               {tarOf(t, with(entry{name: "bin//evil"})...), "is not a name"},
		"tar, backslash":               {tarOf(t, with(entry{name: `..\evil`})...), "is not a name"},
		"tar, drive":                   {tarOf(t, with(entry{name: "C:evil"})...), "is not a name"},
		"tar, no UTF-8":                {tarOf(t, with(entry{name: "\xff"})...), "is not a name"},
		"tar, link":                    {tarOf(t, with(entry{name: "l", kind: tar.TypeSymlink, link: "/etc"})...), "not a regular file"},
		"tar, hard link":               {tarOf(t, with(entry{name: "l", kind: tar.TypeLink, link: "a"})...), "not a regular file"},
		"tar, device":                  {tarOf(t, with(entry{name: "l", kind: tar.TypeChar})...), "not a regular file"},
		"tar, pipe":                    {tarOf(t, with(entry{name: "l", kind: tar.TypeFifo})...), "not a regular file"},
		"tar, twice":                   {tarOf(t, with(entry{name: "a"})...), "a is there twice"},
		"tar, twice, dotted":           {tarOf(t, with(entry{name: "./a"})...), "a is there twice"},
		"tar, long name":               {tarOf(t, with(entry{name: strings.Repeat("a/", 200) + "b"})...), "is not a name"},
		"tar, too many":                {tarOf(t, append(good, entry{name: "c"}, entry{name: "d"}, entry{name: "e"})...), "more than 4 files"},
		"tar, too large":               {tarOf(t, with(entry{name: "c", text: zeros})...), "more than 1048576 bytes"},
		"zip, climbs out":              {zipOf(t, with(entry{name: "../evil"})...), `"../evil" is not a name`},
		"zip, link":                    {zipOf(t, with(entry{name: "l", kind: tar.TypeSymlink, link: "/etc"})...), "not a regular file"},
		"zip, cut short":               {zipOf(t, good...)[:100], "zip"},
		"zip, twice":                   {zipOf(t, with(entry{name: "a"})...), "a is there twice"},
		"zip, too large":               {zipOf(t, with(entry{name: "c", text: zeros})...), "more than 1048576 bytes"},
		"larger than it may unpack to": {bytes.Repeat([]byte{0x1f, 0x8b}, 1<<20), "the archive has 2097152 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := read(c.content, small); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %.100q, %v; want %q", got, err, c.says)
			}
		})
	}
}

// Folders and headers are not files, and cannot go on for ever either.
func TestReadBoundsWhatIsNotFiles(t *testing.T) {
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for i := range 3000 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%d/", i), Typeflag: tar.TypeDir}); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || packed.Close() != nil {
		t.Fatal("close the archive")
	}
	if _, err := read(out.Bytes(), folder.Bounds{Files: 1, Bytes: 300 << 10}); err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("got %v", err)
	}
}

func TestTheSameFilesMakeTheSameBytes(t *testing.T) {
	var packed [2]bytes.Buffer
	for i := range packed {
		dir := t.TempDir()
		for name, mode := range map[string]os.FileMode{"a": 0o640, "bin/b": 0o755, ".git/c": 0o644} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(name), mode); err != nil {
				t.Fatal(err)
			}
		}
		d, err := folder.Open(dir, small)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		w := NewWriter(&packed[i])
		if err := w.Pack(d); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packed[0].Bytes(), packed[1].Bytes()) {
		t.Error("packed twice it is other bytes")
	}
	if got, err := read(packed[0].Bytes(), small); err != nil || fmt.Sprint(got) != "[a false a bin/b true bin/b]" {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzRead holds that no archive writes outside of its folder, nor more than the bounds.
func FuzzRead(f *testing.F) {
	f.Add(tarOf(f, entry{name: "x/a", text: "text"}, entry{name: "x/b"}))
	f.Add(zipOf(f, entry{name: "x/a", text: "text"}, entry{name: "x/b"}))
	f.Add(tarOf(f, entry{name: "../evil"}))
	f.Add(zipOf(f, entry{name: "a/../../evil"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		around := t.TempDir()
		dir := filepath.Join(around, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		w, err := folder.Fill(dir, small)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		total := 0
		_ = Read(bytes.NewReader(content), small, func(f File) error {
			var text bytes.Buffer
			err := w.Write(f.Name, f.Program, io.TeeReader(f.Content, &text))
			total += text.Len()
			return err
		})
		if entries, err := os.ReadDir(around); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
		if len(w.Files()) > small.Files || int64(total) > small.Bytes+1 {
			t.Errorf("%d files, %d bytes", len(w.Files()), total)
		}
	})
}
