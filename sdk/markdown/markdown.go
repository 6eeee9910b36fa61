// Package markdown converts the Markdown of a language model to the format of a platform, and splits it into messages.
//
// Render reads CommonMark with tables, strikethrough and bare links, and writes one dialect. For any source the result is well-formed:
// every tag and every mark that is opened is closed, nothing is read as markup that was not written as such, and raw HTML is shown as text.
// Split splits a source into pieces that are valid Markdown by themselves.
//
// Start with read.go, which converts the source to runs and blocks; form.go defines a dialect, and each dialect has its own file. split.go
// splits. Images, footnotes, task lists and mathematics are not supported; they become text and links.
package markdown

import "strings"

// Dialect is the format of a platform.
type Dialect int

// The dialects.
const (
	Plain        Dialect = iota // text for IRC and e-mail: no marks, links as "text (url)", tables in columns
	TelegramHTML                // the tags that Telegram's parse mode HTML knows
	Slack                       // mrkdwn
	Discord                     // Discord's Markdown, in which nothing mentions a crowd
	WhatsApp                    // *bold* _italic_ ~strike~ ```code```
	HTML                        // a safe subset, for Matrix and e-mail; well-formed XML without a root
)

const (
	maxParsed = 32 << 10  // bytes that are parsed at once: some sources take quadratic time
	maxSource = 256 << 10 // bytes that are parsed as Markdown; the rest is shown unchanged
	maxCells  = 50_000    // of a table, including empty ones: a line of 4,000 columns makes every short row below it as long
	maxDepth  = 8         // of quotes and lists; deeper ones are not indented
)

// Render converts Markdown to the dialect.
func Render(source string, d Dialect) string {
	w := &writer{form: newForm(d)}
	return w.form.join(w.all(clean(source)))
}

// all returns the blocks of a whole source.
func (w *writer) all(source string) []block {
	if len(source) > maxSource || heavy(source) {
		return keep(nil, w.paragraph([]run{{text: source}}))
	}
	parts := []string{source}
	if len(source) > maxParsed {
		parts = Split(source, maxParsed, func(s string) int { return len(s) })
	}
	var blocks []block
	for _, part := range parts {
		w.source = []byte(part)
		blocks = w.blocks(parse(w.source), 0, blocks)
	}
	return blocks
}

func newForm(d Dialect) form {
	switch d {
	case TelegramHTML:
		return telegram{}
	case Slack:
		return slack{}
	case Discord:
		return discord{}
	case WhatsApp:
		return whatsApp{}
	case HTML:
		return html{}
	}
	return plain{}
}

// clean removes what no platform shows and XML cannot contain, and unifies line breaks.
func clean(source string) string {
	source = strings.ReplaceAll(strings.ToValidUTF8(source, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0, r == 0xFFFE, r == 0xFFFF:
			return -1
		}
		return r
	}, source)
}

// heavy reports whether a source has a table that is much larger than its text.
func heavy(source string) bool {
	lines := strings.Count(source, "\n") + 1
	for line := range strings.Lines(source) {
		if columns := strings.Count(line, "|"); columns > 1 && columns*lines > maxCells && strings.Trim(line, "|:->+* \t\n0123456789.)") == "" {
			return true
		}
	}
	return false
}
