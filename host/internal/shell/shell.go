// Package shell parses command lines that a person may allow for longer than once: it finds the programs of a line, with their
// arguments, and refuses every line that it does not fully understand.
//
// Start with Parse. It accepts a small part of the grammar of a shell: words in plain text or in quotes, joined to
// commands by blanks and to a line by &&, ||, ; and |. Everything that a shell would expand, redirect, run in the background or define
// is an error, and so is everything unknown. Lasting checks by a table of harmless programs whether a command or a pattern may be allowed
// for good; Pattern compares lines, and Unshown names the files that a line depends on. The package runs nothing.
package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is a command line: Commands[i] is followed by Joins[i], which is &&, ||, ; or |.
type Line struct {
	Commands []Command
	Joins    []string
}

// Command is a program and its arguments, as the program gets them.
type Command []Word

// Word is one word of a Command.
type Word struct {
	Text string
	Any  bool // in a pattern: a star that stands for one argument
}

// Bounds of a line.
const (
	maxLine  = 8 << 10 // bytes
	maxWords = 500
)

// Parse reads a line. The error names the first part that it does not understand.
func Parse(text string) (Line, error) { return parse(text, false) }

func parse(text string, pattern bool) (Line, error) {
	switch {
	case len(text) > maxLine:
		return Line{}, fmt.Errorf("it is longer than %d bytes", maxLine)
	case !utf8.ValidString(text):
		return Line{}, errors.New("it is not valid UTF-8")
	}
	for _, c := range text {
		if c != ' ' && !unicode.IsPrint(c) {
			return Line{}, fmt.Errorf("it has the character %U, which does not print", c)
		}
	}
	r := reader{rest: text, pattern: pattern}
	for {
		more, err := r.next()
		if err != nil {
			return Line{}, err
		}
		if !more {
			break
		}
	}
	return r.end()
}

// reader takes a line apart from left to right.
type reader struct {
	rest    string
	pattern bool
	line    Line
	command Command
	words   int
}

// next reads one word or operator.
func (r *reader) next() (more bool, err error) {
	r.rest = strings.TrimLeft(r.rest, " ")
	if r.rest == "" {
		return false, nil
	}
	for _, join := range []string{"&&", "||", ";", "|"} { // the longer ones first
		rest, ok := strings.CutPrefix(r.rest, join)
		if !ok {
			continue
		}
		if rest != "" && strings.ContainsRune("&|;", rune(rest[0])) {
			return false, fmt.Errorf("%q is not understood", join+rest[:1])
		}
		r.rest = rest
		return true, r.join(join)
	}
	w, err := r.word()
	if err != nil {
		return false, err
	}
	if r.words++; r.words > maxWords {
		return false, fmt.Errorf("it has more than %d words", maxWords)
	}
	r.command = append(r.command, w)
	return true, nil
}

func (r *reader) join(join string) error {
	if err := r.finish(); err != nil {
		return err
	}
	r.line.Joins = append(r.line.Joins, join)
	return nil
}

// finish closes the command that was read.
func (r *reader) finish() error {
	if len(r.command) == 0 {
		return errors.New("a command is missing")
	}
	if err := r.command.check(); err != nil {
		return err
	}
	r.line.Commands = append(r.line.Commands, r.command)
	r.command = nil
	return nil
}

func (r *reader) end() (Line, error) {
	if err := r.finish(); err != nil {
		return Line{}, err
	}
	return r.line, nil
}

// word reads one word. Parts in quotes and parts without may stand side by side.
func (r *reader) word() (Word, error) {
	if r.pattern && (r.rest == "*" || strings.HasPrefix(r.rest, "* ")) {
		r.rest = r.rest[1:]
		return Word{Any: true}, nil
	}
	var text strings.Builder
	for first := true; r.rest != ""; first = false {
		c := r.rest[0]
		switch {
		case strings.IndexByte(" &|;", c) >= 0:
			return Word{Text: text.String()}, nil
		case c == '\'' || c == '"':
			inside, rest, ok := strings.Cut(r.rest[1:], string(c))
			if !ok {
				return Word{}, errors.New("a quote is not closed")
			}
			if i := strings.IndexAny(inside, "$`\\!"); c == '"' && i >= 0 {
				return Word{}, fmt.Errorf("%q inside double quotes is not understood", inside[i:i+1])
			}
			text.WriteString(inside)
			r.rest = rest
		case c == '\\':
			if len(r.rest) < 2 || r.rest[1] > '~' {
				return Word{}, errors.New("a backslash is not understood")
			}
			text.WriteByte(r.rest[1])
			r.rest = r.rest[2:]
		case plain(c) && !(first && c == '='):
			text.WriteByte(c)
			r.rest = r.rest[1:]
		default:
			bad, _ := utf8.DecodeRuneInString(r.rest)
			return Word{}, fmt.Errorf("%q outside quotes is not understood", bad)
		}
	}
	return Word{Text: text.String()}, nil
}

// plain reports whether a character has no special meaning to any shell, anywhere in a word.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-./:,@%+=", c) >= 0
}

// keywords begin a compound command.
var keywords = []string{
	"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "select", "function", "time", "coproc", "{", "}", "!",
	"[[", "]]",
}

// check refuses commands whose first word does not name the program.
func (c Command) check() error {
	name := c[0].Text
	switch before, _, set := strings.Cut(name, "="); {
	case c[0].Any:
		return errors.New("a star cannot stand for a program")
	case name == "":
		return errors.New("the program has no name")
	case set && !strings.Contains(before, "/"):
		return fmt.Errorf("it sets the variable %q for a command", before)
	case slices.Contains(keywords, name):
		return fmt.Errorf("the keyword %q is not understood", name)
	case strings.HasPrefix(name, "-"):
		return fmt.Errorf("%q is not a program", name)
	}
	return nil
}

// Texts are the words of a command without its program. A star is "*".
func (c Command) Texts() []string {
	var out []string
	for _, w := range c[1:] {
		if w.Any {
			w.Text = "*"
		}
		out = append(out, w.Text)
	}
	return out
}

// Program is the first word of a command.
func (c Command) Program() string { return c[0].Text }
