package glob

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, not []string
	}{
		{"slack:U0*", []string{"slack:U0", "slack:U0ABC", "slack:U0/T1:x"}, []string{"slack:U1", "xslack:U0", ""}},
		{"slack:*", []string{"slack:T1/U0", "slack:"}, []string{"discord:1"}},
		{"*", []string{"", "a/b", ".hidden", "irc:x"}, nil},
		{"irc:?", []string{"irc:é", "irc:🦉", "irc:/"}, []string{"irc:", "irc:ab"}},
		{"irc:[a-cx]1", []string{"irc:a1", "irc:x1"}, []string{"irc:d1", "irc:-1"}},
		{"irc:[!a-c]", []string{"irc:d", "irc:!"}, []string{"irc:a"}},
		{"irc:[^a]", []string{"irc:b"}, []string{"irc:a", "irc:"}},
		{"irc:[]a]", []string{"irc:]", "irc:a"}, []string{"irc:b"}},
		{"irc:[a-]", []string{"irc:-", "irc:a"}, []string{"irc:b"}},
		{`irc:nick\[m\]`, []string{"irc:nick[m]"}, []string{"irc:nickm"}},
		{"{irc,slack}:{a,b*}", []string{"irc:a", "slack:bcd"}, []string{"irc:c", "slack"}},
		{"a{,b}", []string{"a", "ab"}, []string{"abb"}},
		{"a,b", []string{"a,b"}, []string{"a"}},
		{"a*b*c", []string{"abc", "a--b--b--c", "abcbc"}, []string{"acb", "ab"}},
		{"*a", []string{"a", "ba", "aa"}, []string{"ab"}},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, s := range c.yes {
			if !p.Match(s) {
				t.Errorf("%s does not match %q", c.pattern, s)
			}
		}
		for _, s := range c.not {
			if p.Match(s) {
				t.Errorf("%s matches %q", c.pattern, s)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                              "empty",
		strings.Repeat("a", 1025):       "more than 1024",
		"\xff":                          "UTF-8",
		"a[b":                           "never closed",
		"a]":                            "no opening bracket",
		"a{b":                           "never closed",
		"a}":                            "no opening brace",
		`a\`:                            "escapes nothing",
		"[z-a]":                         "upside down",
		strings.Repeat("{a,b}", 7):      "more than 64",
		strings.Repeat("{", 9):          "nested",
		"{" + strings.Repeat("a,", 100): "more than 64",
	} {
		if _, err := Compile(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error is %v, want %q", pattern, err, want)
		}
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		pattern, prefix string
		literals        int
	}{
		{"irc:a*b", "irc:a", 6}, {"*", "", 0}, {"{irc:a,irc:bcd}", "irc:", 5}, {`irc:\*`, "irc:*", 5}, {"é*", "é", 1}, {"{é,è}*", "", 1},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.Prefix() != c.prefix || p.Literals() != c.literals {
			t.Errorf("%s: prefix %q, %d literals; want %q, %d", c.pattern, p.Prefix(), p.Literals(), c.prefix, c.literals)
		}
	}
}

// TestManyStarsTakeLinearTime would not end within the test's time if stars were tried in all combinations.
func TestManyStarsTakeLinearTime(t *testing.T) {
	p, err := Compile(strings.Repeat("a*", 400) + "b")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if p.Match(strings.Repeat("a", 50_000)) {
		t.Fatal("matched")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Fatalf("took %s", took)
	}
}

// naive tries everything; it is the meaning of a pattern without braces.
func naive(tokens []token, s string) bool {
	if len(tokens) == 0 {
		return s == ""
	}
	if tokens[0].kind == star {
		for i := 0; i <= len(s); {
			if naive(tokens[1:], s[i:]) {
				return true
			}
			_, n := utf8.DecodeRuneInString(s[i:])
			i += max(n, 1)
		}
		return false
	}
	if s == "" {
		return false
	}
	c, n := utf8.DecodeRuneInString(s)
	return tokens[0].accepts(c) && naive(tokens[1:], s[n:])
}

func TestMatchesTheNaiveMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := Compile(rapid.StringMatching(`([ab:é]|\*|\?|\[[!^]?[ab][a-b]?\]|\{[ab*],[b?]\}){1,6}`).Draw(t, "pattern"))
		if err != nil {
			t.Skip(err)
		}
		s := rapid.StringMatching(`[ab:é]{0,8}`).Draw(t, "text")
		want := false
		for _, a := range p.alts {
			want = want || naive(a, s)
		}
		if got := p.Match(s); got != want {
			t.Fatalf("%s on %q: %v, want %v", p, s, got, want)
		}
		if p.Match(s) && !strings.HasPrefix(s, p.Prefix()) {
			t.Fatalf("%s matches %q, which lacks its prefix %q", p, s, p.Prefix())
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"a*", "{a,{b,c}}", "[!a-z]", `\*`, "[]", "{,,,}"} {
		f.Add(s, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		p.Match(s)
		if !utf8.ValidString(s) {
			return
		}
		escaped := Escape(s)
		if e, err := Compile(escaped); err == nil && (!e.Match(s) || e.Prefix() != s) {
			t.Fatalf("Escape(%q) = %q does not match it", s, escaped)
		}
	})
}
