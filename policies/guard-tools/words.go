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
	// evaluates is set where $( or ` is plain text: something later may evaluate that.
	evaluates bool
}

// lexer splits a command line into words by the POSIX rules. If the rules let a shell run or read something that is not part of the line,
// it stops and sets why.
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
		switch c := l.src[l.pos]; {
		case c == ' ' || c == '\t':
			l.pos++
		case c == '\\' && strings.HasPrefix(l.src[l.pos:], "\\\n"):
			l.pos += 2
		case c == '#':
			end := strings.IndexByte(l.src[l.pos:], '\n')
			if end < 0 {
				end = len(l.src) - l.pos
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
	start := l.pos
	for l.pos < len(l.src) && isPlain(l.src[l.pos]) {
		l.pos++
	}
	if l.pos == len(l.src) || isEnd(l.src[l.pos]) {
		return word{text: l.src[start:l.pos]}, true // most words: no copy, no further look
	}
	w, text := word{}, []byte(l.src[start:l.pos])
	for l.pos < len(l.src) && !isEnd(l.src[l.pos]) {
		var ok bool
		if text, ok = l.bit(text, &w); !ok {
			return word{}, false
		}
	}
	w.text = string(text)
	w.evaluates = strings.Contains(w.text, "$(") || strings.IndexByte(w.text, '`') >= 0
	return w, true
}

// bit reads a character of a word, or a quoted part of it.
func (l *lexer) bit(text []byte, w *word) ([]byte, bool) {
	switch c := l.src[l.pos]; c {
	case '\'':
		return l.singleQuoted(text, w)
	case '"':
		return l.doubleQuoted(text, w)
	case '\\':
		return l.escaped(text, w)
	case '$', '`':
		if !l.expansion(w, false) {
			return nil, false
		}
	case '*', '?', '[', '{', '=':
		w.globs = w.globs || globs(c, l.src[l.pos:], len(text) == 0 && !w.quoted)
	default:
		if c < ' ' || c == 0x7f {
			l.stop("a control character")
			return nil, false
		}
	}
	l.pos++
	return append(text, l.src[l.pos-1]), true
}

func (l *lexer) singleQuoted(text []byte, w *word) ([]byte, bool) {
	w.quoted = true
	end := strings.IndexByte(l.src[l.pos+1:], '\'')
	if end < 0 {
		l.stop("a quote without an end")
		return nil, false
	}
	text = append(text, l.src[l.pos+1:l.pos+1+end]...)
	l.pos += end + 2
	return text, true
}

// escaped reads a backslash and what it protects. One at a line's end joins the lines.
func (l *lexer) escaped(text []byte, w *word) ([]byte, bool) {
	l.pos += 2
	if l.pos > len(l.src) {
		l.stop("a backslash at the end")
		return nil, false
	}
	if c := l.src[l.pos-1]; c != '\n' {
		w.quoted = true
		text = append(text, c)
	}
	return text, true
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
	w.quoted = true
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

func isOperator(c byte) bool {
	switch c {
	case ';', '&', '|', '(', ')', '\n':
		return true
	}
	return false
}

// isEnd reports whether the character, unquoted, ends a word.
func isEnd(c byte) bool { return c == ' ' || c == '\t' || c == '<' || c == '>' || isOperator(c) }

// isPlain reports whether the character means itself wherever it stands in a word.
func isPlain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '-' <= c && c <= ':', c >= 0x80:
		return true // between - and : lie . / and the digits
	}
	return c == '_' || c == ',' || c == '+' || c == '@' || c == '%'
}

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
