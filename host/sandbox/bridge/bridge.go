// Package bridge lets programs in a sandbox have selected commands run elsewhere: in a second container, which has what the
// first must not, such as a credential.
//
// Start with Rules: they say, position by position, which arguments such a command may have, and Check takes a command line
// apart by them. Everything is refused that is not listed, and the refusal names the argument and the reason. Server has the
// host's end of a call: it reads what a program inside asks (package wire), checks it, and has it run by the maker of the
// Server. The package starts nothing itself.
package bridge

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Arg says what an argument in its position may be.
type Arg struct {
	// Pattern is a regular expression (RE2) that the whole argument has to match; of a path, its part within the workspace.
	// Anything, if it is empty.
	Pattern string
	// Path says that the argument is a path, which has to lie in the workspace.
	Path bool
	// Rest says that it stands for all further arguments, if there are any; only the last may.
	Rest bool
}

// Form is one way to call a command.
type Form struct {
	Args []Arg
	// Flags are those that may stand anywhere, with the pattern of their value; a flag with an empty one takes none. A value
	// follows as the next argument or behind an equals sign. "--", which ends the flags, has to be listed as well.
	Flags map[string]string
}

// Rules are compiled forms.
type Rules struct{ forms []form }

type form struct {
	args  []arg
	flags map[string]*pattern // nil for a flag without a value
}

type arg struct {
	pattern    *pattern
	path, rest bool
}

// pattern is an anchored expression.
type pattern struct {
	text string
	re   *regexp.Regexp
}

// anything is what an empty pattern stands for.
const anything = "(?s).*"

func compile(text string) (*pattern, error) {
	if _, err := regexp.Compile(text); err != nil { // by itself, or it might close the anchors' group
		return nil, fmt.Errorf("pattern %q: %w", text, err)
	}
	if text == "" {
		text = anything
	}
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", text, err)
	}
	return &pattern{text: text, re: re}, nil
}

func (p *pattern) matches(text string) bool { return p.re.MatchString(text) }

// Compile reads forms. Without any, nothing can be called.
func Compile(forms []Form) (*Rules, error) {
	rules := &Rules{}
	for i, f := range forms {
		compiled, err := f.compile()
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		rules.forms = append(rules.forms, compiled)
	}
	return rules, nil
}

func (f Form) compile() (form, error) {
	out := form{flags: make(map[string]*pattern)}
	for i, a := range f.Args {
		if a.Rest && i < len(f.Args)-1 {
			return form{}, fmt.Errorf("argument %d stands for the rest, but others follow", i+1)
		}
		p, err := compile(a.Pattern)
		if err != nil {
			return form{}, fmt.Errorf("argument %d: %w", i+1, err)
		}
		out.args = append(out.args, arg{pattern: p, path: a.Path, rest: a.Rest})
	}
	for name, text := range f.Flags {
		if err := checkFlag(name); err != nil {
			return form{}, err
		}
		if text == "" {
			out.flags[name] = nil
			continue
		}
		p, err := compile(text)
		if err != nil {
			return form{}, fmt.Errorf("flag %s: %w", name, err)
		}
		out.flags[name] = p
	}
	if p, has := out.flags["--"]; has && p != nil {
		return form{}, errors.New(`"--" has no value`)
	}
	return out, nil
}

func checkFlag(name string) error {
	if len(name) < 1 || name[0] != '-' || strings.ContainsAny(name, "= \t\r\n\x00") {
		return fmt.Errorf("flag %q does not begin with a hyphen, or has a space or an equals sign", name)
	}
	return nil
}

// TakesAnything reports whether an argument that is no path may be whatever the caller likes.
func (r *Rules) TakesAnything() bool {
	return slices.ContainsFunc(r.forms, func(f form) bool {
		return slices.ContainsFunc(f.args, func(a arg) bool { return !a.path && a.pattern.text == anything })
	})
}

// HasPaths reports whether any form has a path.
func (r *Rules) HasPaths() bool {
	return slices.ContainsFunc(r.forms, func(f form) bool {
		return slices.ContainsFunc(f.args, func(a arg) bool { return a.path })
	})
}
