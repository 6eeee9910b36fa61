package markdown

import "strings"

// discord is a dialect of Markdown: every mark has an escape, headings have up to three levels, tables and rules are not supported, and
// some words notify a whole group.
type discord struct{ plain }

func (discord) rule() block                    { return textBlock("───") }
func (discord) table(t table, _ *writer) block { return rawBlock(ticked(columns(t))) }

func (discord) fence(lang, code string) block {
	return rawBlock("```" + lang + strings.TrimPrefix(ticked(code), "```"))
}

func (discord) heading(level int, inner string) block {
	inner = strings.ReplaceAll(inner, "\n", " ")
	if level > 3 {
		return textBlock("**" + strings.ReplaceAll(inner, "**", "") + "**")
	}
	return textBlock(strings.Repeat("#", level) + " " + inner)
}

func (discord) mark(m mark, inner string, prev, next rune) string {
	with := "**"
	switch {
	case m == strike:
		with = "~~"
	case m == emphasis && (word(prev) || word(next)):
		with = "*"
	case m == emphasis:
		with = "_"
	}
	return with + inner + with
}

func (discord) code(s string, _, _ rune) string {
	s = strings.ReplaceAll(s, "``", "`"+zero+"`")
	if strings.Contains(s, "`") {
		return "`` " + s + " ``"
	}
	return "`" + s + "`"
}

// link writes only the address if the text looks like one as well: Discord does not allow a text that looks like an address to lead
// elsewhere.
func (discord) link(url, inner, label string) string {
	url = strings.NewReplacer("(", "%28", ")", "%29").Replace(url)
	switch {
	case sameLink(url, label):
		return strings.TrimPrefix(url, "mailto:")
	case strings.Contains(label, "://"), strings.HasPrefix(url, "mailto:"):
		return inner + " (" + strings.TrimPrefix(url, "mailto:") + ")"
	}
	return "[" + inner + "](" + url + ")"
}

func (discord) text(s string, prev, _ rune) string {
	var b strings.Builder
	start, number := prev == 0, false // at the start of a line; within the digits there
	for i := 0; i < len(s); i++ {
		c := s[i]
		token := mention(s[i:])
		switch {
		case token > 0:
			b.WriteString(s[i : i+token])
			i += token - 1
		case c == '@' && crowd(s[i+1:]):
			b.WriteString("@" + zero)
		case strings.IndexByte("\\*_~`|<[]", c) >= 0, start && strings.IndexByte("#>-+", c) >= 0, number && (c == '.' || c == ')'):
			b.WriteString(`\` + s[i:i+1])
		default:
			b.WriteByte(c)
		}
		number = (start || number) && '0' <= c && c <= '9'
		start = c == '\n' || start && c == ' '
	}
	return b.String()
}

// crowd reports whether a word notifies everybody.
func crowd(s string) bool {
	return strings.HasPrefix(strings.ToLower(s), "everyone") || strings.HasPrefix(strings.ToLower(s), "here")
}

// mention returns the length of what Discord shows as a person, a channel, an emoji or a time at the beginning of s. A role is not
// included: it notifies all its members.
func mention(s string) int {
	end := strings.IndexByte(s[:min(len(s), 80)], '>')
	if end < 0 || s[0] != '<' {
		return 0
	}
	inner := s[1:end]
	for _, kind := range []string{"@!", "@", "#", "a:", ":", "t:"} {
		rest, ok := strings.CutPrefix(inner, kind)
		if ok && (kind == "a:" || kind == ":") {
			var name string
			name, rest, ok = strings.Cut(rest, ":")
			ok = ok && name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
		}
		if ok && kind == "t:" && len(rest) > 2 && rest[len(rest)-2] == ':' && strings.IndexByte("tTdDfFR", rest[len(rest)-1]) >= 0 {
			rest = rest[:len(rest)-2]
		}
		if ok && rest != "" && len(rest) <= 20 && strings.Trim(rest, "0123456789") == "" {
			return end + 1
		}
	}
	return 0
}
