package main

import (
	"errors"
	"fmt"
	"strings"
)

// line is one IRC message, according to RFC 1459 section 2.3 and the message-tags specification.
type line struct {
	tags    map[string]string
	source  string // "nick!user@host" or a server's name
	command string // upper case
	params  []string
}

// Limits of a line, in bytes, CR LF included: RFC 1459 for the message, IRCv3 for tags.
const (
	maxLine   = 512
	maxTags   = 8191
	maxParams = 15
)

var errEmptyLine = errors.New("line has no command")

// parseLine reads a line without its CR LF. It accepts what servers send in practice: more spaces than needed, and
// a NUL nowhere.
func parseLine(s string) (line, error) {
	var l line
	if strings.ContainsAny(s, "\x00\r\n") {
		return l, errors.New("line has a NUL or a line break inside")
	}
	if tags, rest, ok := cutWord(s, "@"); ok {
		l.tags = parseTags(tags)
		s = rest
	}
	if source, rest, ok := cutWord(s, ":"); ok {
		l.source = source
		s = rest
	}
	command, s, _ := strings.Cut(strings.TrimLeft(s, " "), " ")
	if command == "" {
		return l, errEmptyLine
	}
	l.command = strings.ToUpper(command)
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		if s[0] == ':' || len(l.params) == maxParams-1 {
			l.params = append(l.params, strings.TrimPrefix(s, ":"))
			break
		}
		var p string
		p, s, _ = strings.Cut(s, " ")
		l.params = append(l.params, p)
	}
	return l, nil
}

// cutWord takes the first word off s if it begins with mark.
func cutWord(s, mark string) (word, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	if !strings.HasPrefix(s, mark) {
		return "", s, false
	}
	word, rest, _ = strings.Cut(s[len(mark):], " ")
	return word, rest, true
}

var unescapeTag = strings.NewReplacer(`\:`, ";", `\s`, " ", `\\`, `\`, `\r`, "\r", `\n`, "\n", `\`, "")

func parseTags(s string) map[string]string {
	tags := map[string]string{}
	for tag := range strings.SplitSeq(s, ";") {
		if key, value, _ := strings.Cut(tag, "="); key != "" && len(tags) < 64 {
			tags[key] = unescapeTag.Replace(value)
		}
	}
	return tags
}

// param returns the i-th parameter, or "".
func (l line) param(i int) string {
	if i >= 0 && i < len(l.params) {
		return l.params[i]
	}
	return ""
}

// last returns the last parameter, or "".
func (l line) last() string { return l.param(len(l.params) - 1) }

// nick returns the nickname of the source.
func (l line) nick() string {
	nick, _, _ := strings.Cut(l.source, "!")
	return nick
}

// formatLine builds a line with CR LF. Parameters other than the last must be single words; anything that could begin a
// second line is refused, not escaped.
func formatLine(command string, params ...string) (string, error) {
	var b strings.Builder
	b.WriteString(command)
	for i, p := range params {
		if strings.ContainsAny(p, "\x00\r\n") {
			return "", fmt.Errorf("format %s: parameter %d has a NUL or a line break", command, i)
		}
		last := i == len(params)-1
		if !last && (p == "" || p[0] == ':' || strings.Contains(p, " ")) {
			return "", fmt.Errorf("format %s: parameter %d %q is not a single word", command, i, p)
		}
		b.WriteByte(' ')
		if last && (p == "" || p[0] == ':' || strings.Contains(p, " ")) {
			b.WriteByte(':')
		}
		b.WriteString(p)
	}
	b.WriteString("\r\n")
	if b.Len() > maxLine {
		return "", fmt.Errorf("format %s: line has %d bytes, more than %d", command, b.Len(), maxLine)
	}
	return b.String(), nil
}

// fold maps a nickname or channel name to the form in which names are equal (RFC 1459: {}|~ are the lower case of []\^).
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case r == '[':
			return '{'
		case r == ']':
			return '}'
		case r == '\\':
			return '|'
		case r == '^':
			return '~'
		}
		return r
	}, name)
}

// isChannel reports whether a name is that of a channel, not a nickname.
func isChannel(name string) bool { return name != "" && strings.ContainsRune("#&+!", rune(name[0])) }

// validTarget reports whether a name can be sent to as it is.
func validTarget(name string) bool {
	return name != "" && len(name) <= 200 && name[0] != ':' && name[0] != '$' && !strings.ContainsAny(name, " ,\x00\x07\r\n")
}
