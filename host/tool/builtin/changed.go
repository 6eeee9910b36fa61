package builtin

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// maxChanged bounds the changed files that are named.
const maxChanged = 20

// changed lists the files that a command has changed, in one line: "[files: a (new), b (modified) and 12 more]". It is empty
// if there are none.
func changed(c *machine.Changes) string {
	if c == nil {
		return ""
	}
	var told []string
	total := 0
	for _, kind := range []struct {
		word  string
		names []string
	}{{"modified", c.Modified}, {"new", c.Added}, {"deleted", c.Deleted}} {
		total += len(kind.names)
		for _, name := range kind.names[:min(len(kind.names), maxChanged-len(told))] {
			told = append(told, fmt.Sprintf("%s (%s)", plain(name), kind.word))
		}
	}
	closed := ""
	if n := len(c.Unread); n > 0 {
		var names []string
		for _, name := range c.Unread[:min(n, maxChanged)] {
			names = append(names, plain(name))
		}
		closed = "closed to their own user, so that changes in them are not known: " + strings.Join(names, ", ")
		if n > len(names) {
			closed += fmt.Sprintf(" and %d more", n-len(names))
		}
	}
	if total == 0 && closed != "" {
		return "[folders " + closed + "]"
	}
	if total == 0 && c.Partial {
		return "[the workspace is too large to tell which files changed]"
	}
	if total == 0 {
		return ""
	}
	more := ""
	if total > len(told) {
		more = fmt.Sprintf(" and %d more", total-len(told))
	}
	if c.Partial {
		more += "; the workspace is too large to name all"
	}
	if closed != "" {
		more += "; folders " + closed
	}
	return "[files: " + strings.Join(told, ", ") + more + "]"
}

// plain quotes a name with unusual characters, which may have been chosen to look like text of the host.
func plain(name string) string {
	odd := func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(`"()[],`, r)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, odd) {
		return fmt.Sprintf("%q", name)
	}
	return name
}
