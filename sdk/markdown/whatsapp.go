package markdown

import "strings"

// whatsApp recognises marks like Slack; it has no links with a separate text and no escapes.
type whatsApp struct{ plain }

func (whatsApp) prepare(runs []run) []run              { return byLine(runs) }
func (whatsApp) text(s string, prev, next rune) string { return apart(s, prev, next) }
func (whatsApp) mark(m mark, inner string, prev, next rune) string {
	return edged(m, inner, prev, next)
}
func (whatsApp) quote(inner []block) block      { return quoted(inner, "> ") }
func (whatsApp) fence(_, code string) block     { return rawBlock(ticked(code)) }
func (whatsApp) table(t table, _ *writer) block { return rawBlock(ticked(columns(t))) }

func (whatsApp) code(s string, prev, next rune) string {
	if word(prev) || word(next) {
		return apart(s, prev, next)
	}
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// link writes the address unchanged, because a zero-width space in it would change the target.
func (whatsApp) link(url, inner, label string) string {
	if sameLink(url, label) {
		return strings.TrimPrefix(url, "mailto:")
	}
	return plain{}.link(url, inner, label)
}
