package markdown

import "strings"

// slack is mrkdwn. It has no escape for its marks, only for the three characters of HTML. A mark is recognised only at the edge of a word,
// and ends with the line.
type slack struct{ plain }

func (slack) prepare(runs []run) []run { return byLine(runs) }

func (slack) text(s string, prev, next rune) string { return escaped(apart(s, prev, next)) }

func (slack) code(s string, prev, next rune) string {
	if word(prev) || word(next) {
		return escaped(apart(s, prev, next))
	}
	return "`" + escaped(strings.ReplaceAll(s, "`", "'")) + "`"
}

func (slack) mark(m mark, inner string, prev, next rune) string { return edged(m, inner, prev, next) }

func (slack) link(url, _, label string) string {
	url = strings.NewReplacer("&", "&amp;", "|", "%7C").Replace(url)
	if sameLink(url, label) {
		return "<" + url + ">"
	}
	return "<" + url + "|" + escaped(strings.NewReplacer("|", "¦", "\n", " ").Replace(label)) + ">"
}

func (slack) list(l list) block              { return listed(l, "• ") }
func (slack) quote(inner []block) block      { return quoted(inner, "> ") }
func (slack) fence(_, code string) block     { return rawBlock(ticked(escaped(code))) }
func (slack) table(t table, _ *writer) block { return rawBlock(ticked(escaped(columns(t)))) }

// escaped escapes the three characters that Slack and Telegram read as markup, so that a mention such as <!channel> becomes text.
func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// ticked returns a block of code.
func ticked(code string) string {
	return "```\n" + strings.ReplaceAll(code, "```", "`"+zero+"`"+zero+"`") + "\n```"
}

// byLine repeats marks on every line.
func byLine(runs []run) []run {
	for i := range runs {
		if runs[i].text == "\n" {
			runs[i].marks, runs[i].url = 0, ""
		}
	}
	return runs
}

// edged puts a mark around inner where it is recognised: at the edges of words.
func edged(m mark, inner string, prev, next rune) string {
	if word(prev) || word(next) {
		return inner
	}
	with := map[mark]string{strong: "*", emphasis: "_", strike: "~"}[m]
	return with + inner + with
}

// apart surrounds characters that would be read as marks with zero-width spaces.
func apart(s string, prev, next rune) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		before, after := prev, next
		if i > 0 {
			before = runes[i-1]
		}
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		opens := strings.ContainsRune("*_~`", r) && !word(before) && !strings.ContainsRune(" \n\t", after)
		if opens || r == '>' && (before == 0 || before == '\n') {
			b.WriteString(zero + string(r) + zero)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
