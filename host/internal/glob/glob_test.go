package glob

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"", []string{""}, []string{"a"}},
		{"slack:U1", []string{"slack:U1"}, []string{"slack:u1", "slack:U12", ""}},
		{"slack:*", []string{"slack:", "slack:T1/U0", "slack:a:b"}, []string{"slack", "irc:slack:"}},
		{"*", []string{"", "anything/at:all"}, nil},
		{"*@example.org", []string{"a@example.org", "@example.org"}, []string{"a@example.org.evil"}},
		{"a*b*c", []string{"abc", "axbxbxc"}, []string{"ab", "acb"}},
		{"a**c", []string{"ac", "abc"}, []string{"a"}},
		{"?", []string{"a", "é", "🙂", "\xff"}, []string{"", "ab"}},
		{"[a-c]x", []string{"ax", "cx"}, []string{"dx", "x"}},
		{"[!a-c]", []string{"d", "é"}, []string{"a", "", "dd"}},
		{"[^a]", []string{"b"}, []string{"a"}},
		{"[]a]", []string{"]", "a"}, []string{"b"}},
		{"[a-]", []string{"a", "-"}, []string{"b"}},
		{"[-a]", []string{"a", "-"}, []string{"b"}},
		{"[!]x", []string{"!x"}, []string{"ax"}},
		{"[*]", []string{"*"}, []string{"a"}},
		{"{a,b}c", []string{"ac", "bc"}, []string{"c", "abc"}},
		{"a{,b}", []string{"a", "ab"}, []string{"b"}},
		{"{a,{b,c}d}", []string{"a", "bd", "cd"}, []string{"b", "d"}},
		{"{*.go,[,}]}", []string{"x.go", ",", "}"}, []string{"x.c"}},
		{"a,b}", []string{"a,b}"}, []string{"a"}},
		{"\uFFFD", []string{"\uFFFD"}, []string{"\xff"}},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		for _, s := range c.yes {
			if !p.Match(s) {
				t.Errorf("%q does not match %q", c.pattern, s)
			}
		}
		for _, s := range c.no {
			if p.Match(s) {
				t.Errorf("%q matches %q", c.pattern, s)
			}
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, c := range map[string]struct{ pattern, want string }{
		"negation":          {"!a", "does not negate"},
		"comment":           {"#a", "does not comment"},
		"open class":        {"a[b", "[ is not closed"},
		"empty class":       {"[]", "[ is not closed"},
		"backward range":    {"[z-a]", "runs backwards"},
		"open brace":        {"{a,b", "{ is not closed"},
		"too long":          {strings.Repeat("a", MaxLength+1), "at most 1024"},
		"too many":          {strings.Repeat("{a,b}", 7), "more than 64"},
		"too many in one":   {"{" + strings.Repeat(",", 64) + "}", "more than 64"},
		"too deep":          {strings.Repeat("{", 9) + strings.Repeat("}", 9), "deeper than 8"},
		"not text":          {"\xff", "not valid UTF-8"},
		"open class braces": {"{[,]", "{ is not closed"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Compile(c.pattern); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSpecificity(t *testing.T) {
	for _, c := range []struct {
		pattern, prefix string
		literals        int
	}{
		{"", "", 0},
		{"abc", "abc", 3},
		{"ab*c", "ab", 3},
		{"*abc", "", 3},
		{"é?x", "é", 2},
		{"ab{cd,ce,c}", "abc", 3},
		{"a{é,è}", "a", 2},
		{"{a,}", "", 0},
		{"a[b]c", "a", 2},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.Prefix() != c.prefix || p.Literals() != c.literals {
			t.Errorf("%q: prefix %q, literals %d; want %q, %d", c.pattern, p.Prefix(), p.Literals(), c.prefix, c.literals)
		}
	}
}

// naive tries everything, alternative by alternative, and takes exponential time for it.
func naive(tokens []token, s string) bool {
	if len(tokens) == 0 {
		return s == ""
	}
	if tokens[0].kind == star {
		for i := range s {
			if naive(tokens[1:], s[i:]) {
				return true
			}
		}
		return naive(tokens[1:], "")
	}
	n, ok := tokens[0].take(s)
	return ok && naive(tokens[1:], s[n:])
}

var alphabet = []rune("ab:/é*?[]{},-!")

func TestMatchIsThatOfTheNaiveMatcher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom(alphabet), 0, 12, -1).Draw(t, "pattern")
		p, err := Compile(pattern)
		if err != nil {
			t.Skip(err)
		}
		s := rapid.StringOfN(rapid.SampledFrom(alphabet), 0, 10, -1).Draw(t, "s")
		want := false
		for _, tokens := range p.alternatives {
			want = want || naive(tokens, s)
		}
		if got := p.Match(s); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, s, got, want)
		}
		if want && !strings.HasPrefix(s, p.Prefix()) {
			t.Fatalf("%q matches %q, which lacks the prefix %q", pattern, s, p.Prefix())
		}
		if want && utf8.RuneCountInString(s) < p.Literals() {
			t.Fatalf("%q matches %q, shorter than %d literals", pattern, s, p.Literals())
		}
	})
}

func TestLiteralsMatchThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-z0-9:/@._-]{0,40}`).Draw(t, "s")
		p, err := Compile(s)
		if err != nil || !p.Match(s) || p.Prefix() != s || p.Literals() != len(s) {
			t.Fatalf("%q does not stand for itself: %v", s, err)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b?[c-e]{f,g*}", "axxbydg")
	f.Add("{a,{b,c}}", "c")
	f.Add(strings.Repeat("*a", 500), strings.Repeat("a", 1000))
	f.Fuzz(func(t *testing.T, pattern, s string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		if p.Match(s) && !strings.HasPrefix(s, p.Prefix()) {
			t.Fatalf("%q matches %q without its prefix", pattern, s)
		}
		if len(p.alternatives) > MaxAlternatives {
			t.Fatalf("%q has %d alternatives", pattern, len(p.alternatives))
		}
	})
}

func BenchmarkMatchWorst(b *testing.B) {
	p, err := Compile(strings.Repeat("a", 500) + "*" + strings.Repeat("a", 500) + "b")
	if err != nil {
		b.Fatal(err)
	}
	s := strings.Repeat("a", 4096)
	for b.Loop() {
		p.Match(s)
	}
}
