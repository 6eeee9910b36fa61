// Package bridge lets programs in a sandbox run selected commands elsewhere: in a second container, which has what the first must not have,
// such as a credential.
//
// Start with Rules, which list position by position the arguments that such a command may have. Check matches a command line against them;
// everything that is not listed is refused, and the refusal names the argument and the reason. Server is the host's end of a call: it reads
// the request of a program inside (package wire), checks it and calls Command.Run. The package starts no process itself.
package bridge

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Arg describes the arguments allowed in one position.
type Arg struct {
	// Pattern is a regular expression (RE2) that the whole argument must match, or, for a path, its part below the workspace. If it is
	// empty, anything matches.
	Pattern string
	// Path marks an argument that is a path in the workspace.
	Path bool
	// Rest makes the Arg match all further arguments, if any; only the last may have it.
	Rest bool
}

// Form is one way to call a command.
type Form struct {
	Args []Arg
	// Flags maps each flag that may stand anywhere to the pattern of its value; an empty pattern means that the flag takes no value. A
	// value follows as the next argument or after an equals sign. "--", which ends the flags, must be listed as well.
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

// pattern is an anchored regular expression.
type pattern struct {
	text string
	re   *regexp.Regexp
}

// anything is the expression used for an empty pattern.
const anything = "(?s).*"

func compile(text string) (*pattern, error) {
	if _, err := regexp.Compile(text); err != nil { // compiled alone first: with an unbalanced parenthesis it could close the group of the anchors
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

// Compile compiles the forms. Without any, no call is accepted.
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

// TakesAnything reports whether an argument that is not a path may be an arbitrary text.
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
