package shell

import (
	"errors"
	"slices"
	"strings"
)

// Pattern is a line with stars. Each star stands for one argument that is not an option; all other words must be equal.
type Pattern struct{ line Line }

// ParsePattern reads a pattern. It has the grammar of a line; a star is a word of its own, and never the program.
func ParsePattern(text string) (Pattern, error) {
	line, err := parse(text, true)
	if err != nil {
		return Pattern{}, err
	}
	p := Pattern{line}
	if !p.stars() {
		return p, errors.New("it has no star that stands for an argument")
	}
	return p, nil
}

func (p Pattern) stars() bool {
	return slices.ContainsFunc(p.line.Commands, func(c Command) bool { return slices.ContainsFunc(c, func(w Word) bool { return w.Any }) })
}

// Line is the pattern itself.
func (p Pattern) Line() Line { return p.line }

// Lasting returns why the pattern must not be allowed, or "": a star never stands for a file that the program reads or sends, nor for an
// option.
func (p Pattern) Lasting() (why string) {
	for _, c := range p.line.Commands {
		if !slices.ContainsFunc(c, func(w Word) bool { return w.Any }) {
			continue
		}
		known, ok := known(c.Program())
		if !ok {
			return c.Lasting()
		}
		if _, why := known.stars(c); why != "" {
			return why
		}
	}
	return ""
}

// Match reports whether the whole line fits, from its first word to its last.
func (p Pattern) Match(l Line) bool {
	if !slices.Equal(p.line.Joins, l.Joins) || len(p.line.Commands) != len(l.Commands) {
		return false
	}
	for i, c := range p.line.Commands {
		if !slices.EqualFunc(c, l.Commands[i], fits) {
			return false
		}
		known, _ := known(c.Program())
		urls, _ := known.stars(c)
		if slices.ContainsFunc(urls, func(at int) bool { return !isURL(l.Commands[i][at].Text) }) {
			return false
		}
	}
	return true
}

// isURL reports whether every program takes a text for an address of the web.
func isURL(text string) bool {
	text = strings.ToLower(text)
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// fits compares a word with one of a pattern. A star takes no value that begins like an option, which could change what the program does,
// and none that names a file, which the program could read or send.
func fits(pattern, w Word) bool {
	if !pattern.Any {
		return !w.Any && pattern.Text == w.Text
	}
	return w.Text != "" && !strings.ContainsAny(w.Text[:1], "-+@!(") && len(FileSigns(w.Text)) == 0
}
