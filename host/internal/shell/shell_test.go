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

// lines are those of TestLasting that may be agreed to for good.
var lastingLines = []string{
	"ls -la", "cat notes.txt", "/usr/bin/wc -l x", "find . -name x", "find . -type f -newer x -print0", "sort -u x", "sort -k2,3 -t: x", "df -h", "uptime",
	"grep -r x .", "grep -rn -A3 -- -x .", "date", "date +%s", "uniq -c x", "uniq -c", "head -n 5 x", "tail -5 x", "rg -n x docs", "rg --files", "diff -u a b", "jq -r .a x",
	"curl -s https://example.com/x", "curl -sS -X POST -H 'Accept: text/plain' -d a=b https://example.com", "curl -m5 https://example.com", "mkdir -p a", "rm -r a",
	"cd sub", "echo -n x", "test -f x", "true", "ps aux", "du -sh .", "fd -e go x", "tree -L 2", "file -b x", "seq 1 3", "which ls", "ping -c 1 host",
}

// reported are the programs of a review that a list of bad names had missed, and of another one before it: each runs another program, or what a
// file of the workspace says.
var reported = []string{
	"hyperfine ls", "chronic ls", "ifne ls", "logsave x ls", "cpulimit -l 5 ls", "aa-exec -p x ls", "rlwrap ls", "ip netns exec x ls", "ip -batch x",
	"busctl --address=unixexec:path=/bin/sh list", "lftp -c '!ls'", "aria2c --on-download-complete=x http://h/", "tcpdump -z x -r y", "protoc --plugin=x y", "ssh-keygen -D ./x.so",
	"ssh-agent sh x.sh", "exiftool -config x y", "c99 x.c", "x86_64-linux-gnu-gcc-12 -wrapper sh x.c", "direnv exec . ls", "mise exec -- ls", "fzf --preview x",
	"bat --pager x y", "prettier x", "vitest run", "rollup -c", "mypy x", "pylint x", "flake8 x", "sphinx-build a b", "mkdocs build", "rspec", "rails test",
	"gunicorn x:y", "flask run", "read PATH", "printf -v PATH x", "printf xxx%n PATH", "test -v x", "test x -eq y", "wait -p PATH", "kill 1", "getent -s x/y passwd",
	"/proc/self/exe x.sh", "/proc/self/exe -c ls", "/proc/self/cwd/usr/bin/env ls", "/dev/fd/3 x",
}

// others run programs, load code or write what is run.
var others = []string{
	"sh x", "/bin/sh x", "/bin/../bin/sh x", "\\sh x", "s'h' x", `"bash" x`, "SH x", "LS", "command sh x", "exec ls", "eval ls", ". ./x", "busybox sh", "env ls", "xargs rm",
	"nice ls", "timeout 5 ls", "sudo ls", "su -c ls", "doas ls", "ssh host ls", "python x.py", "python3.11 x.py", "/opt/python-3/bin/python3 x", "perl5.36.0 x",
	"ruby3.1 x", "node x.js", "awk 1 x", "sed -n 1p x", "make", "npm test", "docker ps", "nohup ls", "setsid ls", "stdbuf -o0 ls", "watch ls", "script x", "git status",
	"git -C x log", "git-shell x", "find . -exec rm x", "find . -ok rm x", "find . -fprintf x y", "find . -delete", "find . -files0-from x", "tar xf a.tar", "tar tf host:a",
	"tar xf a --checkpoint-action=exec=x", "tar -I x -xf a", "tar xIf x a", "sort --compress-program=x y", "sort --compress-pr x y", "sort -o x y", "sort -T x y", "rg --pre x y",
	"rg -z x y", "rg --hostname-bin=x y", "ld-linux-x86-64.so.2 /bin/ls", "zip -T a b", "curl -K x", "curl --config x", "curl -o x https://h/", "curl -O https://h/x", "curl -T x https://h/",
	"curl -F a=b https://h/", "curl -d @x https://h/", "curl -d@x https://h/", "curl -sd@x https://h/", "curl --data=@x https://h/", "curl file:///etc/passwd", "curl '{file}:///etc/passwd'",
	"curl --data-urlencode a@x https://h/", "curl -w @x https://h/", "wget http://h/", "vi x", "less x", "man ls", "sqlite3 x", "go test", "uniq a b", "uniq - b", "uniq -- -a b", "tee x",
	"cp a b", "mv a b", "ln -s a b", "dd if=a of=b", "install a b", "tree -o x", "shuf -o x", "diff -l a b", "fd -x ls", "fd -X ls", "file -C -m x", "jq -f x", "./ls", "nosuchprogram",
}

func TestLasting(t *testing.T) {
	why := func(line string) string {
		t.Helper()
		l, err := Parse(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		c := l.Commands[0]
		if why := c.Lasting(); why != "" {
			return why
		}
		if _, err := ResolveInside(c.Program()); err != nil {
			return err.Error()
		}
		return ""
	}
	for _, line := range lastingLines {
		if why := why(line); why != "" {
			t.Errorf("%q must not last: %s", line, why)
		}
	}
	for _, line := range slices.Concat(reported, others) {
		if line != "./ls" && why(line) == "" {
			t.Errorf("%q may last", line)
		}
		if l, _ := Parse(line); l.Commands[0].Lasting() == "" {
			if _, _, err := Resolve(l.Commands[0].Program(), "/usr/bin:/bin"); err == nil {
				t.Errorf("%q may last on the host", line)
			}
		}
	}
	l, _ := Parse("cat x")
	if l.Commands[0].Lasting("/usr/bin/cat", "/usr/bin/less") == "" {
		t.Error("what a link leads to does not count")
	}
	l, _ = Parse("ls")
	if why := l.Commands[0].Lasting("/bin/ls", "/bin/busybox"); why != "" {
		t.Errorf("ls of busybox: %s", why)
	}
}

// TestTheTableIsWhole: what the table says of stars is about options that it knows.
func TestTheTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range programs {
		for _, name := range strings.Fields(p.names) {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
			for _, option := range append(strings.Fields(p.after), strings.Split(p.flags, "")...) {
				if !isOption(option) {
					option = "-" + option
				}
				if !p.any && p.flags != "" && p.unknown([]string{option}) != "" {
					t.Errorf("a star may stand behind %s of %s, which is not known", option, name)
				}
			}
		}
	}
	for _, name := range builtins {
		if !seen[name] {
			t.Errorf("the builtin %s is not in the table", name)
		}
	}
}

func TestWhereAStarMayStand(t *testing.T) {
	for _, c := range []struct {
		pattern string
		may     bool
	}{
		{"grep -rn * docs", true},
		{"grep -n -A 3 * docs", true},
		{"grep -rn x *", false},
		{"grep -f * docs", false},
		{"grep -rnf * docs", false},
		{"grep -e x *", false},
		{"grep --file=x * docs", false},
		{"grep -- -f *", false},
		{"grep -e -m *", false},
		{"head -n * x", true},
		{"head -n 5 *", false},
		{"head -n -n *", false},
		{"tail -c * x", true},
		{"cat *", false},
		{"wc -l *", false},
		{"sort *", false},
		{"diff * b", false},
		{"jq . *", false},
		{"cd * && cat x", false},
		{"ls *", true},
		{"ls -la * *", true},
		{"find * -name *", true},
		{"echo *", true},
		{"curl -s *", true},
		{"curl -s -d * https://h/", true},
		{"curl -F * https://h/", false},
		{"curl -T * https://h/", false},
		{"curl --data-urlencode * https://h/", false},
		{"curl -K *", false},
		{"rm *", false},
		{"touch *", false},
		{"ls * | wc -l", true},
		{"ls * | cat *", false},
		{"python3 *", false},
		{"/proc/self/exe -c *", false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		why := p.Lasting()
		for _, command := range p.Line().Commands {
			if why == "" {
				why = command.Lasting()
			}
		}
		if (why == "") != c.may {
			t.Errorf("%q: %q, want it allowed: %v", c.pattern, why, c.may)
		}
	}
}

// TestNoStarIsAFile: the rude values of a star are what a program would read, send or take for an option.
func TestNoStarIsAFile(t *testing.T) {
	values := []string{
		"f=@/etc/shadow", "f=</etc/shadow", "@/etc/shadow", "file:///etc/shadow", "FILE:/etc/shadow", "fileb:///etc/shadow", "{file}:///etc/shadow", "[f-f]ile:///etc/shadow",
		"fil{e,e}:///etc/shadow", "x;headers=@/etc/shadow", "-K", "--config", "+x", "!x", "(", "",
	}
	for _, pattern := range []string{"curl -s *", "curl -s -d * https://h/", "echo *", "ls *"} {
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			l, err := Parse(strings.Replace(pattern, "*", "'"+v+"'", 1))
			if err != nil {
				t.Fatal(err)
			}
			if p.Match(l) {
				t.Errorf("%q covers %q", pattern, v)
			}
		}
	}
	p, _ := ParsePattern("curl -s *")
	for url, want := range map[string]bool{
		"https://example.com/a?b=c@d": true, "HTTP://h/{a,b}": true, "/etc/shadow": false, "h/x": false, "scp://h/x": false, "dict://h/x": false, "'x'://y": false,
	} {
		l, err := Parse("curl -s '" + strings.ReplaceAll(url, "'", "") + "'")
		if err != nil || p.Match(l) != want {
			t.Errorf("%q fits a star of curl: %v (%v), want %v", url, !want, err, want)
		}
	}
}

func TestResolve(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "ls"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const system = "/usr/local/bin:/usr/bin:/bin"
	file, names, err := Resolve("ls", system)
	if err != nil || len(names) == 0 || filepath.Base(names[0]) != "ls" || !filepath.IsAbs(file) {
		t.Errorf("ls is %s by %q, %v", file, names, err)
	}
	if file, _, err := Resolve("cd", system); err != nil || file != "builtin cd" {
		t.Errorf("cd is %s, %v", file, err)
	}
	for _, program := range []string{"awk", "which", "sh"} { // links, on many systems
		if file, names, err := Resolve(program, system); err != nil || !slices.Contains(names, file) && filepath.Base(file) != filepath.Base(names[len(names)-1]) {
			t.Errorf("%s is %s by %q, %v", program, file, names, err)
		}
	}
	for program, path := range map[string]string{
		"./ls": system, "x/ls": system, "none": system, "ls": bin + ":" + system, filepath.Join(bin, "ls"): system, "/usr/bin/none": system, "/proc/self/exe": system,
		"/proc/self/cwd/bin/ls": system, "/proc/1/root/bin/ls": system, "/dev/fd/0": system, "/bin/../proc/self/exe": system, "cat": "", "/usr/bin/../../" + bin + "/ls": system,
	} {
		if file, _, err := Resolve(program, path); err == nil {
			t.Errorf("%s with the path %s is %s, want an error", program, path, file)
		}
		if _, err := ResolveInside(program); strings.Contains(program, "/") && program != "/usr/bin/none" && err == nil {
			t.Errorf("inside, %s is found", program)
		}
	}
	for _, program := range []string{"ls", "/usr/bin/ls"} {
		if _, err := ResolveInside(program); err != nil {
			t.Errorf("inside: %v", err)
		}
	}
}
