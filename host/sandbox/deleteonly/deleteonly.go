// Package deleteonly recognises commands that only delete files, which may run where a workspace exceeds its limit. Start with Only.
package deleteonly

import (
	"slices"
	"strings"
)

// Path is the PATH for such commands: one from the image might lead into the workspace.
const Path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// deleting are the programs that free space, and those that show where it is used. None of them creates a file.
var deleting = []string{"rm", "rmdir", "chmod", "find", "du", "ls"}

// quiet are redirections that create no file.
var quiet = []string{"2>/dev/null", ">/dev/null", "2>&1"}

// Only reports whether a shell script does nothing but delete and list files. It deliberately understands little of the shell: simple
// commands in sequence, with words, patterns and quotes. It reports false for anything else.
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

// onlyFinds reports whether a plain find command starts no program and writes no file. Shell patterns are refused, because they could match
// a file whose name is an option.
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

// isPlain reports whether the shell sees nothing in a text but words and file patterns. Quotes must be balanced; a quoted separator is not
// plain, because commands are split before.
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
