package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
)

// The pages are README.md and everything below docs/. Their fenced blocks are tests, by the word behind the fence:
//
//	console   commands after "$ ", each followed by what it prints; "..." stands for anything, alone on a line for any lines.
//	          They run one after the other in a folder of the page. "$ flynn serve" starts a host that runs to the end of the page,
//	          "$ echo TEXT | COMMAND" gives the command an input.
//	toml      a configuration, or a part of one, that must load. A file name behind the word writes it for the commands of the page.
//	sh        commands for the reader's machine: each flynn among them must be a command, with flags that it has.
const pagesRoot = "../.."

// page is one Markdown file.
type page struct {
	path   string // from the root of the tree
	text   string
	blocks []block
}

// block is a fenced block.
type block struct {
	line int // of its first line of text
	kind string
	file string // the second word behind the fence
	text string
}

func docPages(t *testing.T) (all []page) {
	t.Helper()
	files := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(pagesRoot, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			rel, _ := filepath.Rel(pagesRoot, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(pagesRoot, file))
		if err != nil {
			t.Fatal(err)
		}
		p := page{path: file, text: string(text)}
		if p.blocks, err = blocksOf(p.text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		all = append(all, p)
	}
	return all
}

func blocksOf(text string) (all []block, err error) {
	var open *block
	for i, line := range strings.Split(text, "\n") {
		fence, ok := strings.CutPrefix(line, "```")
		switch {
		case ok && open == nil:
			kind, file, _ := strings.Cut(fence, " ")
			open = &block{line: i + 2, kind: kind, file: file}
		case ok:
			all, open = append(all, *open), nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		return all, fmt.Errorf("the block at line %d has no end", open.line)
	}
	return all, nil
}

// TestPagesKnowTheirBlocks keeps a block from being left out of the tests by the word behind its fence.
func TestPagesKnowTheirBlocks(t *testing.T) {
	for _, p := range docPages(t) {
		for _, b := range p.blocks {
			if !slices.Contains([]string{"console", "toml", "sh", "text", "go", "json", "yaml", "mermaid", "dockerfile", "ini"}, b.kind) {
				t.Errorf("%s:%d: a block of kind %q", p.path, b.line, b.kind)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestPagesLinks checks that links within the tree lead to a file, and to a heading of it where they name one.
func TestPagesLinks(t *testing.T) {
	for _, p := range docPages(t) {
		for _, found := range link.FindAllStringSubmatch(p.text, -1) {
			target, heading, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := filepath.Join(pagesRoot, p.path)
			if target != "" {
				file = filepath.Join(filepath.Dir(file), target)
			}
			text, err := os.ReadFile(file)
			if info, e := os.Stat(file); e == nil && info.IsDir() {
				err = nil
			}
			switch {
			case err != nil:
				t.Errorf("%s: the link %s leads nowhere", p.path, found[1])
			case heading != "" && !slices.Contains(headings(string(text)), heading):
				t.Errorf("%s: %s has no heading for the link %s", p.path, target, found[1])
			}
		}
	}
}

// TestREADMEIsShort keeps the page that strangers read first to 450 words, marks of tables included.
func TestREADMEIsShort(t *testing.T) {
	if n := len(strings.Fields(docPages(t)[0].text)); n > 450 {
		t.Errorf("README.md has %d words", n)
	}
}

// TestPagesAreReachable follows the links from the index: each page below docs/ is found by them.
func TestPagesAreReachable(t *testing.T) {
	texts := map[string]string{}
	for _, p := range docPages(t) {
		texts[p.path] = p.text
	}
	reached := map[string]bool{}
	next := []string{"docs/README.md"}
	for len(next) > 0 {
		from := next[0]
		next = next[1:]
		if reached[from] {
			continue
		}
		reached[from] = true
		for _, found := range link.FindAllStringSubmatch(texts[from], -1) {
			target, _, _ := strings.Cut(found[1], "#")
			if to := filepath.Join(filepath.Dir(from), target); texts[to] != "" {
				next = append(next, to)
			}
		}
	}
	for path := range texts {
		if strings.HasPrefix(path, "docs/") && !reached[path] {
			t.Errorf("no link leads from docs/README.md to %s", path)
		}
	}
}

// headings are the anchors of a page, as forges make them of its headings.
func headings(text string) (all []string) {
	for line := range strings.Lines(text) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return all
}

// rest is what a part of a configuration needs to be a whole one.
var rest = map[string]string{
	"agent_configs": "[agent_configs.main]\ntool_profile = \"coding\"\n",
	"routing":       "[routing]\ndefault_agent = \"main\"\n",
	"models":        "[models.default]\nprovider = \"demo\"\n",
}

// TestPagesConfigurations loads every block of flynn.toml.
func TestPagesConfigurations(t *testing.T) {
	for _, p := range docPages(t) {
		for _, b := range p.blocks {
			if b.kind != "toml" || b.file != "" && b.file != "flynn.toml" {
				continue
			}
			dir := t.TempDir()
			for _, name := range filesNamed(b.text) {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "flynn.toml")
			if err := os.WriteFile(path, []byte(whole(b.text)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(path, pageEnvironment(dir)); err != nil {
				t.Errorf("%s:%d: %v", p.path, b.line, err)
			}
		}
	}
}

// pageEnvironment has a value for every variable that holds a secret.
func pageEnvironment(home string) func(key string) string {
	return func(key string) string {
		return map[string]string{"HOME": home}[key] + strings.Repeat("x", 32)[:32*min(1, strings.Count(key, "_"))]
	}
}

// whole adds to a part of a configuration what it needs.
func whole(text string) string {
	for _, table := range slices.Sorted(maps.Keys(rest)) {
		if !strings.Contains(text, "["+table+"]") && !strings.Contains(text, "["+table+".") {
			text += "\n" + rest[table]
		}
	}
	return text
}

var fileNamed = regexp.MustCompile(`(?m)^\w*(?:_file|path|dockerfile)\s*=\s*"([^"~/][^"]*)"`)

func filesNamed(text string) (all []string) {
	for _, found := range fileNamed.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// TestPagesCommands checks the commands that are for the reader's machine.
func TestPagesCommands(t *testing.T) {
	for _, p := range docPages(t) {
		for _, b := range p.blocks {
			if b.kind != "sh" {
				continue
			}
			for i, line := range strings.Split(b.text, "\n") {
				for _, command := range flynns(line) {
					if err := checkCommand(command); err != nil {
						t.Errorf("%s:%d: %q: %v", p.path, b.line+i, line, err)
					}
				}
			}
		}
	}
}

var separators = regexp.MustCompile(`\s(?:&&|\|\||[|;<>]|>>|2>)\s?`)

// flynns returns the arguments of each flynn of a line.
func flynns(line string) (all [][]string) {
	for _, part := range separators.Split(strings.TrimSpace(line), -1) {
		args := words(part)
		for len(args) > 0 && (args[0] == "sudo" || strings.Contains(args[0], "=")) {
			args = args[1:]
		}
		switch {
		case len(args) > 2 && args[0] == "go" && args[1] == "run" && args[2] == "./cmd/flynn":
			all = append(all, args[3:])
		case len(args) > 0 && (args[0] == "flynn" || args[0] == "bin/flynn"):
			all = append(all, args[1:])
		}
	}
	return all
}

// checkCommand finds the command in the tree and its flags in the command.
func checkCommand(args []string) error {
	c := rootCommand()
	flags := c.Flags
	for len(args) > 0 && len(c.Commands) > 0 {
		if strings.HasPrefix(args[0], "-") {
			name, _, _ := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
			f := flagNamed(flags, name)
			if f == nil && name != "help" && name != "version" {
				return fmt.Errorf("flynn %s has no flag %s", c.Name, args[0])
			}
			if _, isBool := f.(*cli.BoolFlag); f != nil && !isBool && !strings.Contains(args[0], "=") {
				args = args[min(1, len(args)-1):]
			}
			args = args[1:]
			continue
		}
		next := c.Command(args[0])
		if next == nil {
			return fmt.Errorf("%s has no command %q", c.Name, args[0])
		}
		if next.Hidden {
			return fmt.Errorf("%q is an old name", args[0])
		}
		c, args, flags = next, args[1:], append(flags, next.Flags...)
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if arg == "--" {
			return nil
		}
		if strings.HasPrefix(arg, "-") && name != "help" && flagNamed(flags, name) == nil {
			return fmt.Errorf("flynn %s has no flag %s", c.Name, arg)
		}
	}
	return nil
}

func flagNamed(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// TestPagesRun runs the commands of each page and compares what they print.
func TestPagesRun(t *testing.T) {
	dir := t.TempDir()
	var scripts []string
	for _, p := range docPages(t) {
		text := scriptOf(p)
		if text == "" {
			continue
		}
		name := filepath.Join(dir, strings.NewReplacer("/", "_", ".md", ".txtar").Replace(p.path))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, name)
	}
	if len(scripts) == 0 {
		t.Fatal("no page has a command to run")
	}
	plain := plainFlynn(t)
	testscript.Run(t, testscript.Params{
		Files:               scripts,
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"serve": serveWritten, "prints": prints},
		Setup:               func(env *testscript.Env) error { return setUp(env, plain) },
	})
}

var listens = regexp.MustCompile(`(?m)^listen\s*=\s*"127\.0\.0\.1:\d+"`)

// serveWritten is the script command "serve CONFIG" for a configuration that flynn init may have written: it listens at a free address.
func serveWritten(ts *testscript.TestScript, neg bool, args []string) {
	file := ts.MkAbs(args[0])
	text, err := os.ReadFile(file)
	ts.Check(err)
	text = listens.ReplaceAll(text, []byte(`listen = "127.0.0.1:1"`))
	if !listens.Match(text) { // flynn init leaves the default out
		text = append(text, "\n[gateway]\nlisten = \"127.0.0.1:1\"\n"...)
	}
	ts.Check(os.WriteFile(file, text, 0o600))
	serveOne(ts, neg, args)
}

// scriptOf is a page as a test script, or "" if no command of it runs.
func scriptOf(p page) string {
	var script, files strings.Builder
	n := 0
	for _, b := range p.blocks {
		if b.kind != "console" {
			if b.file != "" {
				text := b.text
				if b.file == "flynn.toml" {
					text = whole(text)
				}
				if b.file == "flynn.toml" && !strings.Contains(text, "[gateway]") {
					text += "\n[gateway]\nlisten = \"127.0.0.1:1\"\n"
				}
				fmt.Fprintf(&files, "-- %s --\n%s", b.file, text)
			}
			continue
		}
		for _, part := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			command, output, _ := strings.Cut(part, "\n")
			fmt.Fprintf(&script, "# %s:%d\n", p.path, b.line)
			if command == "flynn serve" {
				script.WriteString("serve flynn.toml\n")
				continue
			}
			n++
			if input, piped, ok := strings.Cut(command, " | "); ok && strings.HasPrefix(input, "echo ") {
				command = piped
				fmt.Fprintf(&files, "-- input-%d --\n%s\n", n, strings.Trim(strings.TrimPrefix(input, "echo "), "'"))
				fmt.Fprintf(&script, "stdin input-%d\n", n)
			}
			fmt.Fprintf(&script, "prints output-%d %s\n", n, scripted(command))
			fmt.Fprintf(&files, "-- output-%d --\n%s", n, strings.TrimRight(output, "\n")+"\n")
		}
	}
	if script.Len() == 0 {
		return ""
	}
	return script.String() + files.String()
}

// scripted is a command line of a shell in the quoting of test scripts.
func scripted(command string) string {
	args := words(command)
	for i, a := range args {
		args[i] = "'" + strings.ReplaceAll(a, "'", "''") + "'"
	}
	return strings.Join(args, " ")
}

// patience is how long a command that only looks may take to show what a host has yet to do.
const patience = 10 * time.Second

// looks are commands that only look. A reader is slower than the host, the test is not: it looks again.
var looks = regexp.MustCompile(`^flynn (explain|status|schedule history|usage|logs)\b`)

// prints is the script command "prints FILE COMMAND ARGS...": what the command prints must be what the file says.
func prints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: prints FILE COMMAND [ARGS...]")
	}
	want, command := strings.TrimSpace(ts.ReadFile(args[0])), strings.Join(args[1:], " ")
	for until := time.Now().Add(patience); ; {
		_ = ts.Exec(args[1], args[2:]...) // a failure is what the page shows, or is seen by its output
		got := strings.TrimSpace(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
		if expected(want).MatchString(got) {
			return
		}
		if !looks.MatchString(command) || time.Now().After(until) {
			ts.Fatalf("%s\nprinted\n%s\nand the page says\n%s", command, got, want)
		}
	}
}

// expected is the pattern of what a page shows. Runs of blanks are alike, because the columns of a table move with what is in them.
func expected(want string) *regexp.Regexp {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for i, line := range strings.Split(want, "\n") {
		if i > 0 {
			pattern.WriteString(`\n`)
		}
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?s:.*?)`)
			continue
		}
		quoted := regexp.QuoteMeta(strings.Join(strings.Fields(line), " "))
		pattern.WriteString(`\s*` + strings.ReplaceAll(strings.ReplaceAll(quoted, `\.\.\.`, `.*?`), " ", `[ \t]+`) + `[ \t]*`)
	}
	pattern.WriteString(`\z`)
	return regexp.MustCompile(pattern.String())
}

func TestExpected(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		match     bool
	}{
		{"a b", "a   b", true},
		{"a b", "a c", false},
		{"a ... c", "a b.b c", true},
		{"a\n...\nd", "a\nb\nc\nd", true},
		{"a\n...\nd", "a\nb\nc\ne", false},
		{"a", "a\nb", false},
		{"it costs $1 (or .*)", "it costs $1 (or .*)", true},
		{"(x).", "(x)!", false},
	} {
		if got := expected(tt.want).MatchString(tt.got); got != tt.match {
			t.Errorf("%q for %q: %v, want %v", tt.got, tt.want, got, tt.match)
		}
	}
}
