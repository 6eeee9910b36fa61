package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     line
		wantErr  bool
	}{
		{"command only", "PING", line{command: "PING"}, false},
		{"source and trailing", ":ann!a@h PRIVMSG #c :hello there", line{source: "ann!a@h", command: "PRIVMSG", params: []string{"#c", "hello there"}}, false},
		{"tags", `@time=2026-11-21T12:00:00Z;account=ann;x=a\:b\sc\\d\ :s P`, line{
			tags: map[string]string{"time": "2026-11-21T12:00:00Z", "account": "ann", "x": `a;b c\d`}, source: "s", command: "P"}, false},
		{"lower case, extra spaces", "  privmsg   a    :  b ", line{command: "PRIVMSG", params: []string{"a", "  b "}}, false},
		{"empty trailing", "A :", line{command: "A", params: []string{""}}, false},
		{"fifteen parameters", "A 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", line{command: "A",
			params: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15 16"}}, false},
		{"nothing", "", line{}, true},
		{"only a source", ":x", line{}, true},
		{"only tags", "@x=y ", line{}, true},
		{"NUL", "A \x00", line{}, true},
		{"line break", "A b\rQUIT", line{}, true},
	} {
		got, err := parseLine(c.in)
		if (err != nil) != c.wantErr {
			t.Errorf("%s: error is %v", c.name, err)
			continue
		}
		if err == nil && (got.command != c.want.command || got.source != c.want.source || !slices.Equal(got.params, c.want.params)) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
		for k, v := range c.want.tags {
			if got.tags[k] != v {
				t.Errorf("%s: tag %s is %q, want %q", c.name, k, got.tags[k], v)
			}
		}
	}
}

func TestFormatRefusesASecondLine(t *testing.T) {
	for _, params := range [][]string{{"#c", "a\r\nQUIT"}, {"#c\nQUIT", "a"}, {"#c x", "a"}, {":c", "a"}, {"", "a"}, {"#c", "a\x00"}, {strings.Repeat("x", 510)}} {
		if s, err := formatLine("PRIVMSG", params...); err == nil {
			t.Errorf("%q became %q", params, s)
		}
	}
}

func TestFormatThenParse(t *testing.T) {
	word := rapid.StringMatching(`[!-9;-~é][!-~é]{0,10}`)
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.SliceOfN(word, 0, 5).Draw(t, "words")
		params = append(params, rapid.StringMatching(`[ -~é]{0,40}`).Draw(t, "text"))
		text, err := formatLine("PRIVMSG", params...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseLine(strings.TrimSuffix(text, "\r\n"))
		if err != nil || got.command != "PRIVMSG" || !slices.Equal(got.params, params) {
			t.Fatalf("%q came back as %+v, %v", params, got, err)
		}
	})
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{"PING :x", "@a=b :s!u@h PRIVMSG #c :\x01ACTION x\x01", "@", ":", " : ", "\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseLine(s)
		if err == nil && (l.command == "" || len(l.params) > maxParams || len(l.tags) > 64) {
			t.Fatalf("%q parsed as %+v", s, l)
		}
		plainText(s)
		addressed(s, "flynn")
		if text, ok := action(s, "x"); !ok && text != "" {
			t.Fatalf("a request that is not answered has text %q", text)
		}
	})
}

func TestSplitText(t *testing.T) {
	for _, c := range []struct {
		name, in string
		size     int
		want     []string
	}{
		{"fits", "hello", 10, []string{"hello"}},
		{"lines, and no empty ones", "a\n\nb\r\n", 10, []string{"a", "b"}},
		{"at a space", "hello there you", 11, []string{"hello there", "you"}},
		{"no space", "abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"between runes", "ééé", 3, []string{"é", "é", "é"}},
		{"control characters", "a\x01b\x03\tc", 10, []string{"ab c"}},
		{"spaces that fill a piece", " 🦉", 4, []string{"🦉"}},
		{"a line break hidden as CR", "a\rQUIT", 10, []string{"aQUIT"}},
	} {
		if got := texts(splitText(clean(c.in), 0, c.size, 100)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := texts(splitText(strings.Repeat("x\n", 50), 0, 60, 3)); len(got) != 3 || !strings.HasSuffix(got[2], tooLong) {
		t.Errorf("too many lines: %q", got)
	}
}

func TestSplitKeepsAllAndFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zé🦉 \n]{0,300}`).Draw(t, "text")
		size := rapid.IntRange(4, 80).Draw(t, "size")
		cuts := splitText(text, 0, size, 1000)
		pieces := texts(cuts)
		if n := len(cuts); n > 0 { // what follows any of them is the same, however it was reached
			i := rapid.IntRange(0, n-1).Draw(t, "said")
			if rest := texts(splitText(text, cuts[i].next, size, 1000)); !slices.Equal(rest, pieces[i+1:]) {
				t.Fatalf("behind %q follows %q, want %q", pieces[i], rest, pieces[i+1:])
			}
		}
		for _, p := range pieces {
			if len(p) > size || p == "" || !utf8.ValidString(p) {
				t.Fatalf("piece %q for size %d", p, size)
			}
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := squeeze(strings.Join(pieces, "")); got != squeeze(text) {
			t.Fatalf("%q became %q", text, pieces)
		}
	})
}

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"\x02bold\x02": "bold", "\x0304,12red\x03 x": "red x", "\x033": "", "\x03,1": ",1", "\x04ff00aared": "red", "a\tb": "a\tb", "\xff": "\uFFFD",
	} {
		if got := plainText(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestAddressed(t *testing.T) {
	for _, c := range []struct {
		in, rest string
		ok       bool
	}{
		{"Flynn: hi", "hi", true}, {"flynn, hi", "hi", true}, {"flynn hi", "hi", true}, {"hey flynn!", "hey flynn!", true}, {"@flynn hi", "@flynn hi", true},
		{"flynnish: hi", "flynnish: hi", false}, {"hello", "hello", false}, {"", "", false}, {"flynn", "flynn", true},
	} {
		if rest, ok := addressed(c.in, "flynn"); rest != c.rest || ok != c.ok {
			t.Errorf("%q: %q %v", c.in, rest, ok)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]any
		want     string
	}{
		{"no address", map[string]any{}, "address: must be"},
		{"unknown key", map[string]any{"address": "h:1", "chanels": 1}, "chanels: unknown key"},
		{"wrong type", map[string]any{"address": 1}, "address: must be string"},
		{"a channel without its mark", map[string]any{"address": "h:1", "channels": []string{"flynn"}}, "channels.0"},
		{"a nick that hides a command", map[string]any{"address": "h:1", "nick": "a\r\nQUIT"}, "nick"},
		{"account without password", map[string]any{"address": "h:1", "account": "a"}, "sasl_password"},
		{"all at once", map[string]any{"nick": " ", "max_lines": 0}, "max_lines"},
	} {
		err := (&plugin{}).Configure(t.Context(), config(c.settings))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
}

func texts(pieces []piece) (list []string) {
	for _, p := range pieces {
		list = append(list, p.text)
	}
	return list
}
