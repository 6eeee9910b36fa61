package main

import (
	"strings"

	"github.com/flynnhost/flynn/sdk/policy"
)

// globs is a list of Flynn's globs. The usual ones, a text with nothing but a star behind it, cost no call of the host.
type globs []glob

type glob struct {
	start string // what it is without a star at its end
	open  bool   // there is such a star
	other string // the whole glob, where it is of another form
}

// globsOf reads a setting: globs with blanks between them.
func globsOf(key string) globs {
	var list globs
	for word := range strings.FieldsSeq(setting(key)) {
		start, open := strings.CutSuffix(word, "*")
		if strings.ContainsAny(start, "*?[]{}!#") {
			list = append(list, glob{other: word})
			continue
		}
		list = append(list, glob{start: start, open: open})
	}
	return list
}

// match reports whether a text fits one of them. One that means nothing fails the policy, which denies the call.
func (list globs) match(text string) bool {
	for _, g := range list {
		switch {
		case g.other != "":
			if policy.Glob(g.other, text) {
				return true
			}
		case text == g.start || g.open && strings.HasPrefix(text, g.start):
			return true
		}
	}
	return false
}
