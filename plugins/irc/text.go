package main

import (
	"strings"

	"github.com/flynnhost/flynn/sdk/cut"
)

// piece is a line of an answer, and the position in the text after it.
type piece struct {
	text string
	next int
}

// splitText cuts what follows from in a text that clean has made into pieces that each fit a line of at most size bytes: at line
// breaks, else at spaces, else between runes. Empty lines are left out, since IRC has none. More than most pieces are cut off, and the
// last one says so.
func splitText(text string, from, size, most int) []piece {
	var pieces []piece
	for from < len(text) {
		end := from + len(text[from:])
		if n := strings.IndexByte(text[from:], '\n'); n >= 0 {
			end = from + n
		}
		for rest := text[from:end]; strings.TrimRight(rest, " ") != ""; rest = text[from:end] {
			n := cutAt(strings.TrimRight(rest, " "), size)
			line := strings.TrimRight(rest[:n], " ")
			from += n + len(rest[n:]) - len(strings.TrimLeft(rest[n:], " "))
			if line != "" { // a line may begin with more spaces than fit
				pieces = append(pieces, piece{line, from})
			}
		}
		from = end + 1
		if len(pieces) > most {
			pieces = pieces[:most]
			last := &pieces[most-1]
			last.text, last.next = cut.Head(last.text, size-len(tooLong))+tooLong, len(text)
			break
		}
	}
	return pieces
}

// clean returns a text in which every character except line breaks can be sent.
func clean(text string) string { return strings.Map(printable, strings.ToValidUTF8(text, "\uFFFD")) }

const tooLong = " [... cut: too long for IRC]"

// cutAt returns how much of s goes into a piece of at most size bytes.
func cutAt(s string, size int) int {
	if len(s) <= size {
		return len(s)
	}
	n := len(cut.Head(s, size))
	if space := strings.LastIndexByte(s[:n], ' '); space > n/2 {
		return space
	}
	return max(n, 1)
}

// printable replaces a tab by a space and drops other control characters but line breaks.
func printable(r rune) rune {
	switch {
	case r == '\n':
		return r
	case r == '\t':
		return ' '
	case r < ' ' || r == 0x7f:
		return -1
	}
	return r
}

// plainText removes the formatting codes of clients: bold, colour and the like.
func plainText(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == 0x03:
			i += colour(s[i+1:])
		case c == 0x04:
			i += min(6, len(s)-i-1)
		case c < ' ' && c != '\t' || c == 0x7f:
		default:
			b.WriteByte(c)
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// colour returns the length of a colour's numbers: one or two digits, and the same behind a comma.
func colour(s string) int {
	n := digits(s)
	if n > 0 && n < len(s) && s[n] == ',' {
		if m := digits(s[n+1:]); m > 0 {
			n += 1 + m
		}
	}
	return n
}

func digits(s string) int {
	n := 0
	for n < len(s) && n < 2 && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// addressed reports whether a line in a channel is meant for nick, and takes the address off its front.
func addressed(text, nick string) (rest string, ok bool) {
	n := len(nick)
	if n == 0 || len(text) < n {
		return text, false
	}
	if fold(text[:n]) == fold(nick) {
		switch rest := text[n:]; {
		case rest == "":
			return text, true
		case strings.ContainsRune(":,", rune(rest[0])):
			return strings.TrimSpace(rest[1:]), true
		case rest[0] == ' ':
			return strings.TrimSpace(rest), true
		}
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" ,:;.!?()@", r) }) {
		if fold(word) == fold(nick) {
			return text, true
		}
	}
	return text, false
}

// action reads a CTCP message: the text of an ACTION, or ok false for every other request, which is not answered.
func action(text, nick string) (string, bool) {
	if !strings.HasPrefix(text, "\x01") {
		return text, true
	}
	rest, ok := strings.CutPrefix(strings.Trim(text, "\x01"), "ACTION ")
	if !ok {
		return "", false
	}
	return "* " + nick + " " + rest, true
}
