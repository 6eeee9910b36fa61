// Package deleteonly recognises commands that do nothing but delete, which may run where a workspace holds more than it may. Start with Only.
package deleteonly

import (
	"slices"
	"strings"
)

// Path is where such commands are found in a container: a PATH of the image's may lead into the workspace.
const Path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// deleting are the programs that make room, and those that show where it can be made. None of them makes a file.
var deleting = []string{"rm", "rmdir", "chmod", "find", "du", "ls"}

// quiet are words that send output nowhere, and so make no file either.
var quiet = []string{"2>/dev/null", ">/dev/null", "2>&1"}

// Only reports whether a shell's script does nothing but delete and list. It knows little of the shell's language on
// purpose: simple commands one after the other, with words, patterns and quotes. Whatever else is in a script, it says no.
func Only(script string) bool {
	found := false
	for _, line := range strings.FieldsFunc(script, func(c rune) bool { return c == '\n' || c == ';' }) {
		for part := range strings.SplitSeq(line, "&&") {
			words := strings.Split(strings.Trim(part, " "), " ")
			if words[0] == "" {
				continue
			}
			words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(quiet, w) })
			if len(words) == 0 || !slices.Contains(deleting, words[0]) || !isPlain(strings.Join(words, " ")) || words[0] == "find" && !onlyFinds(strings.Join(words, " ")) {
				return false
			}
			found = true
		}
	}
	return found
}

// onlyFinds reports whether a plain command of find starts no program and writes no file. A pattern for the shell could stand for the name
// of a file that is an option.
func onlyFinds(words string) bool {
	var quote rune
	said := func(c rune) rune {
		switch {
		case c == quote:
			quote = 0
			return -1
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			return -1
		}
		return c
	}
	for _, c := range words {
		if said(c); quote == 0 && strings.ContainsRune("*?[", c) {
			return false
		}
	}
	for _, w := range strings.Fields(strings.Map(said, words)) {
		for _, option := range []string{"-exec", "-ok", "-fprint", "-fls"} {
			if strings.HasPrefix(w, option) {
				return false
			}
		}
	}
	return true
}

// isPlain reports whether the shell makes nothing of a text but words and names of files. Quotes end in it: what separates
// commands has no other meaning here, so a quoted one is not plain.
func isPlain(words string) bool {
	var quote rune
	for _, c := range words {
		switch {
		case c < ' ' && c != '\t', strings.ContainsRune("$`\\!", c):
			return false
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.ContainsRune("<>|&(){}#~", c):
			return false
		}
	}
	return quote == 0
}
