package bridge

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/internal/shell"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Workspace says where the session's files are.
type Workspace struct {
	// Inside is the workspace's path for the caller, There for the program; "" if the program has no workspace.
	Inside, There string
}

// Accepted is a call that the rules accept.
type Accepted struct {
	Argv []string // without the program
	// Dir is the working directory and Paths are the path arguments, both relative to the workspace. They may still lead out of it by
	// links.
	Dir   string
	Paths []string
}

// Refusal says which argument is refused, and why.
type Refusal struct {
	Position int // from 1; 0 is the call as a whole
	Argument string
	Why      string
}

func (r Refusal) Error() string {
	if r.Position == 0 {
		return r.Why
	}
	if r.Argument == "" {
		return fmt.Sprintf("argument %d: %s", r.Position, r.Why)
	}
	return fmt.Sprintf("argument %d (%s): %s", r.Position, quote(r.Argument), r.Why)
}

// Limits of a call.
const (
	maxArgs     = 256
	maxArgument = 8 << 10
	maxPath     = 4096
)

// Check matches a command line against the rules. The error is a Refusal: where there are several forms, that of the form that matched most
// arguments.
func (r *Rules) Check(argv []string, cwd string, ws Workspace) (Accepted, error) {
	var worst Refusal
	if err := checkText(argv); err != nil {
		return Accepted{}, err
	}
	dir, err := ws.dir(cwd)
	if err != nil {
		return Accepted{}, err
	}
	if len(r.forms) == 0 {
		return Accepted{}, Refusal{Why: "no arguments are listed"}
	}
	for i, f := range r.forms {
		m := match{form: f, argv: argv, dir: dir, ws: ws}
		accepted, err := m.run()
		if err == nil {
			return accepted, nil
		}
		var refused Refusal
		if !errors.As(err, &refused) {
			return Accepted{}, err
		}
		if i == 0 || refused.Position > worst.Position {
			worst = refused
		}
	}
	return Accepted{}, worst
}

// checkText refuses arguments with characters that a program, a shell or a log could read as a separator.
func checkText(argv []string) error {
	if len(argv) > maxArgs {
		return Refusal{Why: fmt.Sprintf("more than %d arguments", maxArgs)}
	}
	for i, a := range argv {
		switch {
		case len(a) > maxArgument:
			return Refusal{i + 1, "", fmt.Sprintf("longer than %d bytes", maxArgument)}
		case !utf8.ValidString(a):
			return Refusal{i + 1, a, "not valid UTF-8"}
		case strings.IndexFunc(a, isUnseen) >= 0:
			return Refusal{i + 1, a, "has a line break or another control character"}
		}
	}
	return nil
}

func isUnseen(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// dir returns the working directory relative to the workspace.
func (ws Workspace) dir(cwd string) (string, error) {
	if ws.There == "" {
		return "", nil
	}
	rel, ok := ws.within(cwd, "")
	if !ok || !path.IsAbs(cwd) {
		return "", Refusal{Why: fmt.Sprintf("the working directory %s is not in the workspace %s", quote(cwd), ws.Inside)}
	}
	return rel, nil
}

// within makes a path relative to the workspace; dir is relative to it already.
func (ws Workspace) within(name, dir string) (string, bool) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", false
	}
	if !path.IsAbs(name) {
		// Not joined and cleaned in one step: more ".." than folders must not be clipped at a root.
		name = path.Join(ws.Inside, dir) + "/" + name
	}
	clean := path.Clean(name)
	if clean == ws.Inside {
		return ".", true
	}
	rel, ok := strings.CutPrefix(clean, strings.TrimSuffix(ws.Inside, "/")+"/")
	return rel, ok
}

// match is one attempt to match a form.
type match struct {
	form form
	argv []string
	dir  string
	ws   Workspace

	out  Accepted
	next int  // position among the form's arguments
	done bool // no more flags
}

func (m *match) run() (Accepted, error) {
	m.out.Dir = m.dir
	for i := 0; i < len(m.argv); i++ {
		a := m.argv[i]
		switch {
		case a == "":
			if err := m.positional(i, a); err != nil {
				return Accepted{}, err
			}
		case a[0] == '-':
			used, err := m.flag(i, a)
			if err != nil {
				return Accepted{}, err
			}
			i += used
		default:
			if err := m.positional(i, a); err != nil {
				return Accepted{}, err
			}
		}
	}
	if m.next < len(m.form.args) && !m.form.args[m.next].rest {
		return Accepted{}, Refusal{len(m.argv) + 1, "", fmt.Sprintf("missing: want %s", m.form.args[m.next])}
	}
	return m.out, nil
}

func (a arg) String() string {
	if a.path {
		return "a path in the workspace"
	}
	return "what matches " + a.pattern.text
}

// flag matches an argument that begins with a hyphen and returns how many further arguments it used.
func (m *match) flag(i int, a string) (used int, err error) {
	if m.done {
		return 0, Refusal{i + 1, a, `begins with a hyphen after "--"`}
	}
	name, value, joined := strings.Cut(a, "=")
	p, listed := m.form.flags[name]
	switch {
	case !listed:
		return 0, Refusal{i + 1, a, "is a flag that is not listed"}
	case p == nil && joined:
		return 0, Refusal{i + 1, a, "is a flag that takes no value"}
	case p == nil:
		m.done = name == "--"
		m.out.Argv = append(m.out.Argv, a)
		return 0, nil
	case joined:
		m.out.Argv = append(m.out.Argv, a)
		return 0, m.value(i, a, value, p)
	case i+1 >= len(m.argv):
		return 0, Refusal{i + 1, a, "is a flag that lacks its value"}
	}
	value = m.argv[i+1]
	if strings.HasPrefix(value, "-") {
		return 0, Refusal{i + 2, value, "begins with a hyphen where a value is due"}
	}
	m.out.Argv = append(m.out.Argv, a, value)
	return 1, m.value(i+1, value, value, p)
}

func (m *match) value(i int, a, value string, p *pattern) error {
	if !p.matches(value) {
		return Refusal{i + 1, a, "the value does not match " + p.text}
	}
	return readsNoFile(i, a, value, p)
}

// readsNoFile refuses a value that many programs replace by a file's content, unless the pattern mentions that syntax.
func readsNoFile(i int, a, value string, p *pattern) error {
	if sign, does := p.namesFile(value); does {
		return Refusal{i + 1, a, fmt.Sprintf("may name a file by %q, which is not listed", sign)}
	}
	return nil
}

// positional matches an argument by its position.
func (m *match) positional(i int, a string) error {
	if m.next >= len(m.form.args) {
		return Refusal{i + 1, a, "is one more than are listed"}
	}
	want := m.form.args[m.next]
	if !want.rest {
		m.next++
	}
	if !want.path {
		if !want.pattern.matches(a) {
			return Refusal{i + 1, a, "does not match " + want.pattern.text}
		}
		m.out.Argv = append(m.out.Argv, a)
		return readsNoFile(i, a, a, want.pattern)
	}
	rel, ok := m.ws.within(a, m.dir)
	switch {
	case m.ws.There == "":
		return Refusal{i + 1, a, "is a path, and the command has no workspace"}
	case a == "" || !ok:
		return Refusal{i + 1, a, "is not a path in the workspace " + m.ws.Inside}
	case !want.pattern.matches(rel):
		return Refusal{i + 1, a, "is a path that does not match " + want.pattern.text}
	}
	m.out.Paths = append(m.out.Paths, rel)
	m.out.Argv = append(m.out.Argv, path.Join(m.ws.There, rel)) // absolute, so never a flag
	return nil
}

// quote returns a stranger's text as one line.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(cut.Head(text, most), "\uFFFD"))
	}
	return fmt.Sprintf("%q", text)
}

// namesFile returns the syntax by which a value names a file, unless its pattern mentions that syntax.
func (p *pattern) namesFile(value string) (sign string, does bool) {
	for _, sign := range shell.FileSigns(value) {
		if !strings.Contains(p.text, sign) {
			return sign, true
		}
	}
	return "", false
}
