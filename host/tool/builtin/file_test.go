package builtin

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestFileTools(t *testing.T) {
	b := newBench(t, WebConfig{})
	r := b.call("file.write", args{"path": "dir/./notes.txt", "content": "one\ntwo\nthree\n"})
	b.want(r, false, "14 bytes")
	if !slices.Equal(r.Labels, []string{"file:dir/notes.txt"}) {
		t.Errorf("labels %q", r.Labels)
	}
	r = b.call("file.read", args{"path": "dir/notes.txt"})
	if r.Text != "one\ntwo\nthree\n" || !slices.Equal(r.Labels, []string{"file:dir/notes.txt"}) {
		t.Errorf("read %q, labels %q", r.Text, r.Labels)
	}
	b.want(b.call("file.edit", args{"path": "dir/notes.txt", "old": "two", "new": "zwei"}), false, "replaced 1", "line 2")
	b.want(b.call("file.read", args{"path": "dir/notes.txt"}), false, "one\nzwei\nthree\n")
	b.want(b.call("file.list", args{}), false, "dir/\n")
	b.want(b.call("file.list", args{"path": "dir"}), false, "notes.txt  15 bytes\n")
	for name, call := range map[string]args{
		"file.read":  {"path": "../x"},
		"file.write": {"path": "/etc/flynn", "content": "x"},
		"file.edit":  {"path": "../x", "old": "a", "new": "b"},
		"file.list":  {"path": "/"},
	} {
		b.want(b.call(name, call), true, "leaves the workspace")
	}
	b.want(b.call("file.read", args{"path": "nope"}), true, "no such file")
	b.want(b.call("file.read", args{"path": "dir"}), true, "not a regular file")
	b.want(b.call("file.write", args{"path": "empty/x", "content": ""}), false, "wrote 0 bytes")
	b.want(b.call("file.edit", args{"path": "empty/x", "old": "a", "new": "b"}), true, "does not occur")
}

func TestFileListIsBounded(t *testing.T) {
	b := newBench(t, WebConfig{})
	for i := range maxEntries + 5 {
		if err := b.machine.WriteFile(t.Context(), fmt.Sprintf("many/%d", i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	b.want(b.call("file.list", args{"path": "many"}), false, "[5 more]")
}

func TestFileReadPages(t *testing.T) {
	b := newBench(t, WebConfig{})
	write := func(name, content string) {
		if err := b.machine.WriteFile(t.Context(), name, []byte(content), 0); err != nil {
			t.Fatal(err)
		}
	}
	var lines strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&lines, "line %d\n", i+1)
	}
	write("long", lines.String())
	write("wide", strings.Repeat("x", 100_000)+"\nend\n")
	write("binary", "\x00\x01\x02ELF")
	write("runes", strings.Repeat("äöü", 50_000))
	write("unended", "a\nb")
	write("empty", "")
	for _, c := range []struct {
		name  string
		args  args
		parts []string
	}{
		{"first page", args{"path": "long"}, []string{"line 1\nline 2\n", "go on with offset"}},
		{"a few lines", args{"path": "long", "offset": 3, "limit": 2}, []string{"line 3\nline 4\n[lines 3 to 4; ", "go on with offset 5]"}},
		{"far in", args{"path": "long", "offset": 99_999}, []string{"line 99999\nline 100000\n"}},
		{"last line", args{"path": "long", "offset": 100_000, "limit": 1}, []string{"line 100000\n"}},
		{"behind the end", args{"path": "long", "offset": 200_000}, []string{"fewer than 200000 lines"}},
		{"line longer than a page", args{"path": "wide"}, []string{"line 1 is longer than a page; read it with byte_offset 0"}},
		{"after it", args{"path": "wide", "offset": 2}, []string{"end\n"}},
		{"binary", args{"path": "binary"}, []string{"binary file of 6 bytes"}},
		{"binary as bytes", args{"path": "binary", "byte_offset": 0}, []string{"00 01 02 45 4c 46", "end of file at byte 6"}},
		{"bytes", args{"path": "long", "byte_offset": 7, "byte_limit": 6}, []string{"line 2\n[bytes 7 to 13 of", "byte_offset 13"}},
		{"bytes behind the end", args{"path": "binary", "byte_offset": 99}, []string{"end of file at byte 6"}},
		{"cut inside a rune is text all the same", args{"path": "runes", "byte_offset": 1}, []string{"öüä"}},
		{"last line without an end", args{"path": "unended", "offset": 2}, []string{"b"}},
		{"empty", args{"path": "empty"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.call("file.read", c.args)
			b.want(r, false, c.parts...)
			if strings.Contains(r.Text, "left out") {
				t.Error("the runner had to cut a page")
			}
		})
	}
}

// TestFileReadPagesJoin reads a long file page by page, as a model is told to.
func TestFileReadPagesJoin(t *testing.T) {
	b := newBench(t, WebConfig{})
	var lines strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&lines, "%d %s\n", i, strings.Repeat("z", i%50))
	}
	if err := b.machine.WriteFile(t.Context(), "f", []byte(lines.String()), 0); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for offset, pages := 1, 0; ; pages++ {
		text := b.call("file.read", args{"path": "f", "offset": offset}).Text
		body, note, more := strings.Cut(text, "[lines ")
		all.WriteString(body)
		if !more {
			break
		}
		if _, err := fmt.Sscanf(note[strings.Index(note, "offset "):], "offset %d]", &offset); err != nil || pages > 100 {
			t.Fatalf("note %q: %v", note, err)
		}
	}
	if all.String() != lines.String() {
		t.Errorf("pages joined have %d bytes, the file %d", all.Len(), lines.Len())
	}
}

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name, data, old, new string
		all                  bool
		want, err            string
	}{
		{"once", "a b c", "b", "x", false, "a x c", ""},
		{"to nothing", "a b c", " b", "", false, "a c", ""},
		{"over lines", "a\nb\nc\n", "b\nc", "x", false, "a\nx\n", ""},
		{"new holds old", "aa", "aa", "aaaa", false, "aaaa", ""},
		{"all", "a b a", "a", "x", true, "x b x", ""},
		{"all overlapping", "aaa", "aa", "b", true, "ba", ""},
		{"keeps other bytes", "\xff\r\nb\x00", "b", "x", false, "\xff\r\nx\x00", ""},
		{"not there", "abc", "x", "y", false, "", "does not occur"},
		{"other case", "abc", "B", "y", false, "", "does not occur"},
		{"line ends differ", "a\r\nb", "a\nb", "y", false, "", "does not occur"},
		{"twice", "x\na\na\n", "a", "y", false, "", "2 times, at lines 2, 3"},
		{"many times", strings.Repeat("a\n", 30), "a", "y", false, "", "and 20 more"},
		{"nothing to replace", "abc", "", "y", false, "", "empty"},
		{"no change", "abc", "b", "b", false, "", "same"},
		{"too big after", strings.Repeat("a", 1000), "a", strings.Repeat("b", 10_000), true, "", "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := edit([]byte(c.data), c.old, c.new, c.all)
			if (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if string(got) != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEditsSideBySide(t *testing.T) {
	b := newBench(t, WebConfig{})
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("<%d>", i))
	}
	b.call("file.write", args{"path": "f", "content": strings.Join(names, "\n")})
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			b.want(b.call("file.edit", args{"path": "f", "old": name, "new": fmt.Sprintf("done %d.", i)}), false)
		})
	}
	all.Wait()
	if text := b.call("file.read", args{"path": "f"}).Text; strings.Count(text, "done") != len(names) {
		t.Errorf("edits were lost: %s", text)
	}
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte("a b a"), "a", "x", true)
	f.Add([]byte("a\nb\n"), "a\nb", "", false)
	f.Add([]byte("\xff\xfe"), "\xff", "y", false)
	f.Fuzz(func(t *testing.T, data []byte, old, new string, all bool) {
		kept := bytes.Clone(data)
		got, lines, err := edit(data, old, new, all)
		if !bytes.Equal(data, kept) {
			t.Fatal("the original was changed")
		}
		if err != nil {
			return
		}
		if len(got) != len(data)+len(lines)*(len(new)-len(old)) || (!all && len(lines) != 1) {
			t.Fatalf("%d bytes became %d with %d replacements", len(data), len(got), len(lines))
		}
		if !slices.IsSorted(lines) || lines[0] < 1 || lines[len(lines)-1] > 1+bytes.Count(data, []byte("\n")) {
			t.Fatalf("lines %v of %q", lines, data)
		}
	})
}

func TestTrimRunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		got := trimRunes([]byte(text[from:to]))
		if strings.ToValidUTF8(string(got), "") != string(got) {
			t.Fatalf("%q of %q[%d:%d] is not whole runes", got, text, from, to)
		}
		if len(got) < to-from-6 {
			t.Fatalf("%q[%d:%d] lost %d bytes", text, from, to, to-from-len(got))
		}
	})
}
