package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// texts is a line as nested lists, for tests.
func texts(l Line) string {
	var b strings.Builder
	for i, c := range l.Commands {
		b.WriteString("[" + c.Program())
		for _, a := range c.Texts() {
			b.WriteString("|" + a)
		}
		b.WriteString("]")
		if i < len(l.Joins) {
			b.WriteString(l.Joins[i])
		}
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"ls", "[ls]"},
		{"  ls   -la  /tmp ", "[ls|-la|/tmp]"},
		{"git log --oneline -n 5", "[git|log|--oneline|-n|5]"},
		{`echo 'a b' "c d" e\ f`, "[echo|a b|c d|e f]"},
		{`echo 'it'"'"'s'`, "[echo|it's]"},
		{`echo '$HOME *'`, "[echo|$HOME *]"},
		{`echo ''`, "[echo|]"},
		{`\sh -c x`, "[sh|-c|x]"},
		{`s'h' x`, "[sh|x]"},
		{"a && b; c | d || e", "[a]&&[b];[c]|[d]||[e]"},
		{"a&&b", "[a]&&[b]"},
		{"a|b", "[a]|[b]"},
		{"make CC=gcc", "[make|CC=gcc]"},
		{`echo "ä€"`, "[echo|ä€]"},
	} {
		l, err := Parse(c.text)
		if err != nil || texts(l) != c.want {
			t.Errorf("%q is %s (%v), want %s", c.text, texts(l), err, c.want)
		}
	}
}

func TestParseRefusesWhatItIsNotSureOf(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":               "",
		"blanks":                "   ",
		"newline":               "ls\nrm -r x",
		"carriage return":       "ls\rrm",
		"tab":                   "ls\tx",
		"newline in quotes":     "echo 'a\nb'",
		"variable":              "echo $HOME",
		"variable in quotes":    `echo "$HOME"`,
		"substitution":          "echo $(rm x)",
		"backquotes":            "echo `rm x`",
		"backquotes in quotes":  "echo \"`rm x`\"",
		"backslash in quotes":   `echo "\a"`,
		"redirection":           "ls > x",
		"input":                 "cat < x",
		"here document":         "cat << x",
		"descriptor":            "ls 2>&1",
		"process substitution":  "cat <(ls)",
		"in the background":     "ls &",
		"pipe with errors":      "ls |& cat",
		"three bars":            "a ||| b",
		"double semicolon":      "a ;; b",
		"subshell":              "(ls)",
		"group":                 "{ ls; }",
		"glob":                  "ls *",
		"question mark":         "ls ?",
		"class":                 "ls [a]",
		"home":                  "ls ~",
		"braces":                "echo {a,b}",
		"history":               "echo !x",
		"comment":               "ls # x",
		"caret":                 "a ^ b",
		"assignment":            "PATH=. ls",
		"assignment alone":      "X=1",
		"assignment that adds":  "X+=1 ls",
		"quoted assignment":     "'X=1' ls",
		"keyword":               "if true",
		"negation":              "! ls",
		"time":                  "time ls",
		"empty command":         "ls && ",
		"begins with join":      "&& ls",
		"ends with semicolon":   "ls;",
		"open quote":            "echo 'a",
		"open double quote":     `echo "a`,
		"last backslash":        `echo \`,
		"backslash newline":     "ls \\\nrm",
		"empty program":         "'' x",
		"option as program":     "-c ls",
		"zsh's equals":          "=ls",
		"non-breaking space":    "rm\u00a0x",
		"full-width letters":    "ｌｓ",
		"right-to-left":         "ls '\u202e'",
		"null":                  "ls \x00",
		"invalid":               "ls \xff",
		"too long":              "ls " + strings.Repeat("x", maxLine),
		"too many words":        strings.Repeat("a ", maxWords+1),
		"function":              "f() { ls; }",
		"escape that expands":   `echo $'\x41'`,
		"substitution in first": "$(echo sh) -c x",
	} {
		if l, err := Parse(text); err == nil {
			t.Errorf("%s: %q is %s, want an error", name, text, texts(l))
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, line string
		want          bool
	}{
		{"git log *", "git log main", true},
		{"git log *", "git log", false},
		{"git log *", "git log a b", false},
		{"git log *", "git log --output=x", false},
		{"git log *", "git log -p", false},
		{"git log *", "git log ''", false},
		{"git log *", "git log 'a b'", true},
		{"git log *", "git log '--output=x'", false},
		{"git log *", "git log a; rm b", false},
		{"git log *", "git log a && git log b", false},
		{"git log *", "git  log   main", true},
		{"git log *", "cd git log main", false},
		{"git * x", "git a x", true},
		{"cat * | wc -l", "cat f | wc -l", true},
		{"cat * | wc -l", "cat f || wc -l", false},
		{"cat * | wc -l", "cat f", false},
		{"cat '*' *", "cat '*' f", true},
		{"cat '*' *", "cat g f", false},
		{"cat @*", "", false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			if c.line != "" {
				t.Errorf("pattern %q: %v", c.pattern, err)
			}
			continue
		}
		l, err := Parse(c.line)
		if err != nil {
			t.Fatalf("%q: %v", c.line, err)
		}
		if got := p.Match(l); got != c.want {
			t.Errorf("%q fits %q: %v, want %v", c.pattern, c.line, got, c.want)
		}
	}
	for _, bad := range []string{"git log", "*", "* log", "git log* x", "git log *x", "git log **", "git log ?", "git log $x *", "git log '*'", ""} {
		if _, err := ParsePattern(bad); err == nil {
			t.Errorf("%q is a pattern, want an error", bad)
		}
	}
}

func TestLasting(t *testing.T) {
	for _, c := range []struct {
		line string
		may  bool
	}{
		{"ls -la", true},
		{"cat notes.txt", true},
		{"/usr/bin/wc -l x", true},
		{"find . -name x", true},
		{"tar xf a.tar", true},
		{"tar -c -f a.tar x", true},
		{"sort -u x", true},
		{"df -h", true},
		{"uptime", true},
		{"grep -r x .", true},
		{"date", true},
		{"sh x", false},
		{"/bin/sh x", false},
		{"/bin/../bin/sh x", false},
		{`\sh x`, false},
		{"s'h' x", false},
		{`"bash" x`, false},
		{"SH x", false},
		{"command sh x", false},
		{"exec ls", false},
		{"eval ls", false},
		{". ./x", false},
		{"busybox sh", false},
		{"env ls", false},
		{"xargs rm", false},
		{"nice ls", false},
		{"timeout 5 ls", false},
		{"sudo ls", false},
		{"su -c ls", false},
		{"doas ls", false},
		{"ssh host ls", false},
		{"python x.py", false},
		{"python3 x.py", false},
		{"python3.11 x.py", false},
		{"/opt/python-3/bin/python3 x", false},
		{"perl5.36.0 x", false},
		{"ruby3.1 x", false},
		{"node x.js", false},
		{"nodejs x.js", false},
		{"awk 1 x", false},
		{"gawk 1 x", false},
		{"sed -n 1p x", false},
		{"sed -e 1p x", false},
		{"make", false},
		{"npm test", false},
		{"docker ps", false},
		{"nohup ls", false},
		{"setsid ls", false},
		{"stdbuf -o0 ls", false},
		{"watch ls", false},
		{"script x", false},
		{"find . -exec rm x", false},
		{"find . -ok rm x", false},
		{"find . -fprintf x y", false},
		{"git status", false},
		{"git -C x log", false},
		{"hg status", false},
		{"git-shell x", false},
		{"tar xf a --checkpoint-action=exec=x", false},
		{"tar xf a --checkpoint-act=exec=x", false},
		{"tar xf a --to-command x", false},
		{"tar -I x -xf a", false},
		{"tar xIf x a", false},
		{"sort --compress-program=x y", false},
		{"sort --compress-pr x y", false},
		{"rg --pre x y", false},
		{"ld-linux-x86-64.so.2 /bin/ls", false},
		{"zip -T a b", false},
		{"curl -K x", false},
		{"vi x", false},
		{"sqlite3 x", false},
		{"go test", false},
	} {
		l, err := Parse(c.line)
		if err != nil {
			t.Fatalf("%q: %v", c.line, err)
		}
		if why := l.Commands[0].Lasting(); (why == "") != c.may {
			t.Errorf("%q may last: %q, want %v", c.line, why, c.may)
		}
	}
	l, _ := Parse("pager x")
	if l.Commands[0].Lasting("/usr/bin/pager", "/usr/bin/less") == "" {
		t.Error("what a link leads to does not count")
	}
	l, _ = Parse("ls")
	if why := l.Commands[0].Lasting("/bin/ls", "/bin/busybox"); why != "" {
		t.Errorf("ls of busybox: %s", why)
	}
}

func TestResolve(t *testing.T) {
	bin, work := t.TempDir(), t.TempDir()
	program := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program(filepath.Join(bin, "real"))
	program(filepath.Join(work, "own"))
	for link, target := range map[string]string{"linked": "real", "again": "linked", "out": filepath.Join(work, "own"), "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(bin, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	file, names, err := Resolve("again", work)
	if err != nil || filepath.Base(file) != "real" {
		t.Fatalf("again is %s, %v", file, err)
	}
	for _, want := range []string{"again", "linked", "real"} {
		if !slices.ContainsFunc(names, func(n string) bool { return filepath.Base(n) == want }) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
	if file, _, err := Resolve("cd", work); err != nil || file != "builtin cd" {
		t.Errorf("cd is %s, %v", file, err)
	}
	for _, bad := range []string{"./real", "x/real", "none", "out", "loop", filepath.Join(work, "own"), filepath.Join(work, "none")} {
		if file, _, err := Resolve(bad, work); err == nil {
			t.Errorf("%s is %s, want an error", bad, file)
		}
	}
	for program, ok := range map[string]bool{"ls": true, "/usr/bin/ls": true, "/bin/../tmp/x": false, "/workspace/x": false, "./x": false, "x/y": false} {
		if _, err := ResolveInside(program); (err == nil) != ok {
			t.Errorf("inside, %s: %v, want it found: %v", program, err, ok)
		}
	}
}
