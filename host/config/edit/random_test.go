package edit

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pieces are lines of files as people write them; a random file is a run of them.
var pieces = []string{
	"# a comment\n", "\n", "   \n", "\t# indented = \"comment\"\n", "[a]\n", "[a.b] # header\n", "  [c.d]\n", "[\"quoted key\".x]\n", "[[list]]\n", "[list.sub]\n",
	"k1 = 1\n", "k2 = \"text # no comment\" # comment\n", "  k3   = 'literal'\n", "k4 = [\n  1, # one\n  2,\n]\n", "k5 = \"\"\"\n[a]\nk1 = 2\n\"\"\"\n",
	"k6.x.y = true\n", "k7 = { p = 1, \"q r\" = { s = [1] } } # inline\n", "k8 = {}\n", "k9 = 1.5e3\r\n", "k10 = 2020-01-02T03:04:05Z\n", "'k 11' = '''it's\n'''\n",
	"k12 = \"\\\"# not\"\n",
}

var names = []string{"a", "b", "c", "d", "k1", "k2", "k3", "k6", "k7", "x", "y", "p", "q r", "s", "quoted key", "list", "[0]", "[1]", "sub", "new", "new.er"}

// validFile draws pieces, and keeps those that leave the text valid.
func validFile(t *rapid.T) string {
	src := ""
	for _, piece := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 25).Draw(t, "pieces") {
		if _, err := decode(src + piece); err == nil {
			src += piece
		}
	}
	if rapid.Bool().Draw(t, "cut the last line end") {
		src = strings.TrimSuffix(src, "\n")
	}
	return src
}

// TestRandomEdits: an edit adds lines, cuts lines or replaces one value, and every other byte stays in its place; the new text means what was
// asked, which apply itself has compared.
func TestRandomEdits(t *testing.T) {
	done, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		src := validFile(t)
		x := &Text{src}
		key := rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(t, "key")
		kind := rapid.SampledFrom([]string{"set", "table", "append", "remove"}).Draw(t, "edit")
		var err error
		switch kind {
		case "set":
			err = x.Set(rapid.SampledFrom([]any{"v\n\"", int64(7), true, []string{"x", "#"}, 2.0}).Draw(t, "value"), key...)
		case "table":
			err = x.Set(Table{"v": "w"}, key...)
		case "append":
			err = x.Append(Table{"v": 1}, key...)
		case "remove":
			err = x.Remove(key...)
		}
		if err != nil {
			refused++
			if x.src != src {
				t.Fatalf("refused, and changed\n%q to\n%q", src, x.src)
			}
			return
		}
		done++
		if why := stray(kind, src, x.src); why != "" {
			t.Fatalf("%s %q: %s\n%q\n%q", kind, key, why, src, x.src)
		}
		again, err := decode(x.src)
		if err != nil {
			t.Fatal(err)
		}
		if _, has := lookUp(again, key); has == (kind == "remove") && !(kind == "remove" && strings.HasPrefix(key[len(key)-1], "[")) {
			t.Fatalf("%s %q: has %v\n%q", kind, key, has, x.src)
		}
	})
	if done == 0 || refused == 0 {
		t.Errorf("%d edits done, %d refused", done, refused)
	}
}

// stray says what an edit touched besides its own place. Everything before and after one range stays; a removal may cut several ranges.
func stray(kind, before, after string) string {
	if kind == "remove" {
		rest := before
		for i := range len(after) { // after is what remains of before
			at := strings.IndexByte(rest, after[i])
			if at < 0 {
				return fmt.Sprintf("byte %d was not there", i)
			}
			rest = rest[at+1:]
		}
		return ""
	}
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	lost := before[head : len(before)-tail]
	if kind != "set" && lost != "" {
		return fmt.Sprintf("lost %q", lost)
	}
	if strings.Contains(lost, "# a comment") || strings.Contains(lost, "\n[") {
		return fmt.Sprintf("lost %q", lost)
	}
	return ""
}

// FuzzEdits: no text and no edit makes the package panic, hang, or change the text without the meaning that was asked for.
func FuzzEdits(f *testing.F) {
	reference, err := os.ReadFile("../../../examples/flynn.reference.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(reference), "channels\x00x\x00plugin", "telegram")
	f.Add(sample, "routing\x00channels\x00irc", "main")
	f.Add(strings.Join(pieces[:10], ""), "list\x00[0]\x00k1", "v")
	f.Fuzz(func(t *testing.T, src, key, value string) {
		scan(src)
		x, err := Parse([]byte(src))
		if err != nil {
			return
		}
		path := strings.Split(key, "\x00")
		_ = x.Set(value, path...)
		_ = x.Append(Table{"k": value}, path...)
		_ = x.Remove(path...)
		if _, err := decode(x.src); err != nil {
			t.Errorf("%q has become %q: %v", src, x.src, err)
		}
	})
}
