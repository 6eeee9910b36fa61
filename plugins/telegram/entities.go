package main

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
)

// marked is text with its entities, in bytes.
type marked struct {
	text     string
	entities []channel.Entity
}

const maxEntities = 100

// newMarked turns Telegram's ranges, in UTF-16 code units, into bytes. A range that is not within the text is left out, and one
// that begins or ends inside a character takes in the whole of it.
func newMarked(text string, list []models.MessageEntity) marked {
	m := marked{text: text}
	at := offsets(text)
	for _, e := range list[:min(len(list), maxEntities)] {
		if e.Offset < 0 || e.Length <= 0 || e.Offset >= len(at) || e.Length >= len(at)-e.Offset {
			continue
		}
		from, to := at[e.Offset].first, at[e.Offset+e.Length].last
		kind, value := meaning(e, text[from:to])
		m.entities = append(m.entities, channel.Entity{Kind: kind, Offset: from, Length: to - from, Value: value})
	}
	return m
}

// boundary is where a code unit begins, in bytes: the beginning of its character, and the next one that is not inside a character.
// They differ only at the second half of a surrogate pair.
type boundary struct{ first, last int }

// offsets has a boundary for each code unit of a text and one for its end.
func offsets(text string) []boundary {
	out := make([]boundary, 0, len(text)+1)
	for i, r := range text {
		out = append(out, boundary{i, i})
		if r > 0xFFFF {
			out = append(out, boundary{i, i + utf8.RuneLen(r)})
		}
	}
	return append(out, boundary{len(text), len(text)})
}

// meaning converts an entity to the kinds of the contract.
func meaning(e models.MessageEntity, text string) (kind, value string) {
	switch e.Type {
	case models.MessageEntityTypeMention:
		return "mention", text
	case models.MessageEntityTypeTextMention:
		if e.User == nil {
			return "mention", ""
		}
		return "mention", strconv.FormatInt(e.User.ID, 10)
	case models.MessageEntityTypeURL:
		return "link", text
	case models.MessageEntityTypeTextLink:
		return "link", e.URL
	case models.MessageEntityTypePre:
		return "pre", e.Language
	case models.MessageEntityTypeBotCommand:
		return "command", text
	}
	return string(e.Type), ""
}

// cut takes a range out of the text. Entities behind it move up, those inside it are gone, and those across its edge lose the part.
func (m *marked) cut(from, to int) {
	m.text = m.text[:from] + m.text[to:]
	moved := func(at int) int {
		switch {
		case at <= from:
			return at
		case at < to:
			return from
		}
		return at - (to - from)
	}
	kept := m.entities[:0]
	for _, e := range m.entities {
		begin, end := moved(e.Offset), moved(e.Offset+e.Length)
		if e.Offset, e.Length = begin, end-begin; e.Length > 0 {
			kept = append(kept, e)
		}
	}
	m.entities = kept
}

// of returns the text of an entity.
func (m *marked) of(e channel.Entity) string { return m.text[e.Offset : e.Offset+e.Length] }

// units returns the length of a text as Telegram counts it.
func units(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

// visible returns the visible text of parse_mode HTML.
func visible(html string) string {
	var out strings.Builder
	for html != "" {
		text, rest, found := strings.Cut(html, "<")
		out.WriteString(text)
		if !found {
			break
		}
		_, html, _ = strings.Cut(rest, ">")
	}
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&amp;", "&").Replace(out.String())
}
