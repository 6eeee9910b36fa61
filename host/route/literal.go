package route

import (
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/message"
)

// literalOf returns the single id that a key matches, if it is no glob or its only globs are escapes: classes of one character, as in
// "irc:nick[[]m]".
func literalOf(key string) (id string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(key); {
		switch key[i] {
		case '*', '?', '{':
			return "", false
		case '[':
			char, rest, single := oneCharClass(key[i+1:])
			if !single {
				return "", false
			}
			b.WriteString(char)
			i = len(key) - len(rest)
		default:
			b.WriteByte(key[i])
			i++
		}
	}
	return b.String(), true
}

// SenderRule returns the rule of [access] that matches one sender and nobody else; ok is false if no rule does.
func SenderRule(sender message.SenderKey) (rule string, ok bool) {
	var b strings.Builder
	for _, c := range string(sender) {
		if strings.ContainsRune("*?[{", c) {
			b.WriteString("[" + string(c) + "]")
		} else {
			b.WriteRune(c)
		}
	}
	r, ok := senderRule(b.String())
	return b.String(), ok && r.Tier == TierSender && r.literal == string(sender)
}

// SenderOf returns the one sender whom a rule of [access] matches; ok is false for a glob.
func SenderOf(rule string) (message.SenderKey, bool) {
	r, ok := senderRule(rule)
	return message.SenderKey(r.literal), ok && r.Tier == TierSender
}

// oneCharClass parses the rest of a class with one character.
func oneCharClass(rest string) (char, after string, ok bool) {
	_, size := utf8.DecodeRuneInString(rest)
	if size == 0 || !strings.HasPrefix(rest[size:], "]") {
		return "", "", false
	}
	return rest[:size], rest[size+1:], true
}

// escapable are the characters that people escape with a class.
const escapable = "*?[]{}!#^-"

// looksPasted reports whether a key seems to be an id with its own brackets or braces, which a glob interprets: a class without a range
// that is no escape, or braces around a single alternative.
func looksPasted(key string) bool {
	for i := 0; i < len(key); {
		switch key[i] {
		case '[':
			body, after := classBody(key[i+1:])
			char, _, single := oneCharClass(key[i+1:])
			switch {
			case single && strings.Contains(escapable, char):
			case !strings.ContainsAny(body, "-!^"):
				return true
			}
			i = len(key) - len(after)
		case '{':
			inner, _, _ := strings.Cut(key[i+1:], "}")
			if !strings.ContainsAny(inner, ",{") {
				return true
			}
			i++
		default:
			i++
		}
	}
	return false
}

// classBody splits text after a [ at the end of the class. A ] in first position belongs to the class.
func classBody(rest string) (body, after string) {
	end := strings.IndexByte(rest[min(1, len(rest)):], ']')
	if end < 0 {
		return rest, ""
	}
	return rest[:end+1], rest[end+2:]
}

// Escape returns a key that matches only the given sender id.
func Escape(id string) string {
	var b strings.Builder
	for _, r := range id {
		if strings.ContainsRune("*?[{", r) || b.Len() == 0 && (r == '!' || r == '#') {
			b.WriteString("[" + string(r) + "]")
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
