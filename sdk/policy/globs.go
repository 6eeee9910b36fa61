package policy

import "strings"

// Globs is a list of Flynn's globs. The usual ones, a text with nothing but a star behind it, cost no call of the host.
type Globs []glob

type glob struct {
	start string // what it is without a star at its end
	open  bool   // there is such a star
	other string // the whole glob, where it is of another form
}

// ParseGlobs reads globs with blanks between them, as a policy's data has them.
func ParseGlobs(text string) Globs {
	var list Globs
	for word := range strings.FieldsSeq(text) {
		start, open := strings.CutSuffix(word, "*")
		if strings.ContainsAny(start, "*?[]{}!#") {
			list = append(list, glob{other: word})
			continue
		}
		list = append(list, glob{start: start, open: open})
	}
	return list
}

// Match reports whether a text fits one of them. One that means nothing fails the policy, which denies the call.
func (list Globs) Match(text string) bool {
	for _, g := range list {
		switch {
		case g.other != "":
			if Glob(g.other, text) {
				return true
			}
		case text == g.start || g.open && strings.HasPrefix(text, g.start):
			return true
		}
	}
	return false
}
