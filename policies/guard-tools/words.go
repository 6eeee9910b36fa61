package main

import "strings"

// A word is one token of a command line.
type word struct {
	text     string // without its quotes
	operator bool   // one or more of ; & | ( ) and newline: a command ends
	redirect bool   // < > and their kin: the next word is a file
	expands  bool   // $NAME outside single quotes: the shell makes something else of it
	globs    bool   // wildcards or braces outside quotes: the same
	quoted   bool   // some of it was in quotes or escaped: it is no reserved word
}

// lexer cuts a command line into words by the POSIX rules. Where the rules let a shell run or read
// something that is not written there, it stops and says why.
type lexer struct {
	src string
	pos int
	why string // not "": the rest cannot be read
}

// next returns false at the end, or when why is set.
func (l *lexer) next() (word, bool) {
	l.blanks()
	if l.pos == len(l.src) || l.why != "" {
		return word{}, false
	}
	switch c := l.src[l.pos]; {
	case isOperator(c):
		l.pos++
		return word{operator: true}, true
	case c == '<' || c == '>':
		return l.redirection()
	}
	return l.word()
}

// blanks skips blanks, comments and joined lines.
func (l *lexer) blanks() {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t':
			l.pos++
		case strings.HasPrefix(rest, "\\\n"):
			l.pos += 2
		case rest[0] == '#':
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.pos += end
		default:
			return
		}
	}
}

func (l *lexer) redirection() (word, bool) {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, "<<"):
		return l.stop("a here-document")
	case strings.HasPrefix(rest, "<("), strings.HasPrefix(rest, ">("):
		return l.stop("a process substitution")
	case strings.HasPrefix(rest[1:], "\\\n"):
		return l.stop("a line joined in a redirection") // behind it the rest of << may follow
	}
	l.pos++
	if l.pos < len(l.src) && strings.IndexByte("<>&|", l.src[l.pos]) >= 0 {
		l.pos++
	}
	return word{redirect: true}, true
}

// word reads up to the next unquoted blank or operator.
func (l *lexer) word() (word, bool) {
	var w word
	var text []byte
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case c == ' ' || c == '\t' || c == '<' || c == '>' || isOperator(c):
			w.text = string(text)
			return w, true
		case c == '\'':
			end := strings.IndexByte(l.src[l.pos+1:], '\'')
			if end < 0 {
				return l.stop("a quote without an end")
			}
			text = append(text, l.src[l.pos+1:l.pos+1+end]...)
			l.pos += end + 2
			w.quoted = true
			continue
		case c == '"':
			var ok bool
			if text, ok = l.doubleQuoted(text, &w); !ok {
				return word{}, false
			}
			w.quoted = true
			continue
		case c == '\\':
			if l.pos+1 == len(l.src) {
				return l.stop("a backslash at the end")
			}
			if l.src[l.pos+1] != '\n' {
				text = append(text, l.src[l.pos+1])
				w.quoted = true
			}
			l.pos += 2
			continue
		case c == '$' || c == '`':
			if !l.expansion(&w, false) {
				return word{}, false
			}
		case strings.IndexByte("*?[{=", c) >= 0:
			w.globs = w.globs || globs(c, l.src[l.pos:], len(text) == 0 && !w.quoted)
		case c < ' ' || c == 0x7f:
			return l.stop("a control character")
		}
		text = append(text, c)
		l.pos++
	}
	w.text = string(text)
	return w, true
}

// globs reports whether the unquoted character makes another word of this one. Of braces only those with a
// comma or a range do: {} is plain text. = counts where a word begins.
func globs(c byte, rest string, first bool) bool {
	switch c {
	case '*', '?', '[':
		return true
	case '{':
		end := strings.IndexAny(rest, " \t\n;&|<>()")
		if end < 0 {
			end = len(rest)
		}
		return strings.Contains(rest[:end], ",") || strings.Contains(rest[:end], "..")
	case '=':
		return first // zsh: =curl is the path of curl
	}
	return false
}

func (l *lexer) doubleQuoted(text []byte, w *word) ([]byte, bool) {
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case c == '"':
			l.pos++
			return text, true
		case c == '\\' && l.pos+1 < len(l.src) && strings.IndexByte("$`\"\\\n", l.src[l.pos+1]) >= 0:
			l.pos++
			if l.src[l.pos] != '\n' {
				text = append(text, l.src[l.pos])
			}
			continue
		case c == '$' || c == '`':
			if !l.expansion(w, true) {
				return nil, false
			}
		case c < ' ' && c != '\n' && c != '\t' || c == 0x7f:
			l.stop("a control character")
			return nil, false
		}
		text = append(text, l.src[l.pos])
	}
	l.stop("a quote without an end")
	return nil, false
}

// expansion accepts $NAME, ${NAME} and a lone $; everything else that $ and ` begin runs or hides something.
func (l *lexer) expansion(w *word, quoted bool) bool {
	rest := l.src[l.pos:]
	if rest[0] == '`' || strings.HasPrefix(rest, "$(") || strings.HasPrefix(rest, "$[") {
		l.stop("a command substitution")
		return false
	}
	// A joined line may stand between $ and what it begins.
	if strings.HasPrefix(rest, "$\\\n") {
		l.stop("a line joined behind $")
		return false
	}
	if !quoted && (strings.HasPrefix(rest, "$'") || strings.HasPrefix(rest, `$"`)) {
		l.stop("a quote behind $")
		return false
	}
	if strings.HasPrefix(rest, "${") {
		name, _, closed := strings.Cut(rest[2:], "}")
		if !closed || !isName(name) {
			l.stop("an expansion with an operator")
			return false
		}
	}
	w.expands = true
	return true
}

func (l *lexer) stop(why string) (word, bool) {
	l.why = why
	return word{}, false
}

func isOperator(c byte) bool { return strings.IndexByte(";&|()\n", c) >= 0 }

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
