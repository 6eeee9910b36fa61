package message

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a message besides its text; lengths are in bytes. Policies see all of it at every decision.
const (
	MaxRoles       = 16
	MaxRole        = 64
	MaxAttachments = 32
	MaxMediaType   = 128
)

// Bounded returns the message with its text and its lists cut to their bounds. Nothing else cuts a message.
func (m Message) Bounded() Message {
	text, shorter := boundText(m.Text)
	m.Text, m.Cut = text, m.Cut || shorter
	m.Sender.Roles = BoundRoles(m.Sender.Roles)
	m.Attachments = slices.Clone(m.Attachments[:min(len(m.Attachments), MaxAttachments)])
	for i := range m.Attachments {
		m.Attachments[i].Type = MediaType(m.Attachments[i].Type)
	}
	return m
}

// CutMark ends a text that was cut at MaxText.
const CutMark = "\n[cut: the message was longer]"

// boundText makes text valid UTF-8 without NUL, of at most MaxText bytes.
func boundText(text string) (_ string, shorter bool) {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= MaxText {
		return text, false
	}
	end := MaxText - len(CutMark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + CutMark, true
}

// BoundRoles drops repeated roles and those beyond the bound. It drops a role that is too long or unprintable as a whole, because a
// shortened one would be another role.
func BoundRoles(roles []string) []string {
	var out []string
	for _, r := range roles {
		if len(out) == MaxRoles {
			break
		}
		if r != "" && len(r) <= MaxRole && printable(r) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

// MediaType returns a media type in the form of RFC 6838, such as "image/png", in lower case and without parameters; "" if s does not
// have that form. The bytes may still be of another type.
func MediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	s = strings.ToLower(strings.TrimSpace(s))
	kind, sub, ok := strings.Cut(s, "/")
	if !ok || len(s) > MaxMediaType || !restricted(kind) || !restricted(sub) {
		return ""
	}
	return s
}

// restricted reports whether a word is a restricted-name of RFC 6838, section 4.2.
func restricted(word string) bool {
	for i, c := range []byte(word) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("!#$&-^_.+", rune(c))) {
			return false
		}
	}
	return word != ""
}
