package policy

import "strings"

// Globs is a list of Flynn's globs. The usual ones, a text that may end with a star, need no call to the host.
type Globs []glob

type glob struct {
	start string // the glob without a star at its end
	open  bool   // the glob ends with a star
	other string // the whole glob if it has another form
}

// ParseGlobs parses globs separated by blanks, as in a policy's data.
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

// Match reports whether a text matches one of them. A malformed glob fails the policy, which denies the call.
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
