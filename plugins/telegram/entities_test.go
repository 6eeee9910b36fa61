package main

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/sdk/channel"
)

// TestEntitiesMarkTheSameText holds the bytes that an entity marks against the code units that Telegram marked.
func TestEntitiesMarkTheSameText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab é世😀🏳️‍🌈\n"))).Draw(t, "text")
		codes := utf16.Encode([]rune(text))
		from := rapid.IntRange(-2, len(codes)+2).Draw(t, "from")
		length := rapid.IntRange(-2, len(codes)+2).Draw(t, "length")
		m := newMarked(text, []models.MessageEntity{{Type: models.MessageEntityTypeBold, Offset: from, Length: length}})
		if from < 0 || length <= 0 || from+length > len(codes) {
			if len(m.entities) != 0 {
				t.Fatalf("a range that is not within the text became %+v", m.entities)
			}
			return
		}
		if len(m.entities) != 1 {
			t.Fatalf("%d entities", len(m.entities))
		}
		got := m.of(m.entities[0])
		begin, end := from, from+length // in the middle of a pair the whole of it counts
		if utf16.IsSurrogate(rune(codes[begin])) && codes[begin] >= 0xDC00 {
			begin--
		}
		if end < len(codes) && utf16.IsSurrogate(rune(codes[end])) && codes[end] >= 0xDC00 {
			end++
		}
		if want := string(utf16.Decode(codes[begin:end])); got != want || !utf8.ValidString(got) {
			t.Fatalf("%q became %q", want, got)
		}
		if units(text) != len(codes) {
			t.Fatalf("%d units, want %d", units(text), len(codes))
		}
	})
}

// TestCutKeepsWhatIsMarked holds the text that entities mark before and after a piece in front of them is cut out.
func TestCutKeepsWhatIsMarked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z]{1,40}`).Draw(t, "text")
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		offset := rapid.IntRange(0, len(text)-1).Draw(t, "offset")
		length := rapid.IntRange(1, len(text)-offset).Draw(t, "length")
		m := marked{text, []channel.Entity{{Kind: "bold", Offset: offset, Length: length}}}
		var want strings.Builder
		for i := offset; i < offset+length; i++ {
			if i < from || i >= to {
				want.WriteByte(text[i])
			}
		}
		m.cut(from, to)
		if m.text != text[:from]+text[to:] {
			t.Fatalf("text is %q", m.text)
		}
		got := ""
		if len(m.entities) > 0 {
			got = m.of(m.entities[0])
		}
		if got != want.String() {
			t.Fatalf("marks %q, want %q", got, want.String())
		}
	})
}

func TestMeaningsOfEntities(t *testing.T) {
	text := "@ann code https://example.com here"
	m := newMarked(text, []models.MessageEntity{
		{Type: models.MessageEntityTypeMention, Offset: 0, Length: 4},
		{Type: models.MessageEntityTypeCode, Offset: 5, Length: 4},
		{Type: models.MessageEntityTypeURL, Offset: 10, Length: 19},
		{Type: models.MessageEntityTypeTextLink, Offset: 30, Length: 4, URL: "https://example.org"},
		{Type: models.MessageEntityTypeTextMention, Offset: 30, Length: 4, User: &models.User{ID: 7}},
		{Type: models.MessageEntityTypePre, Offset: 30, Length: 4, Language: "go"},
	})
	want := []channel.Entity{
		{Kind: "mention", Offset: 0, Length: 4, Value: "@ann"}, {Kind: "code", Offset: 5, Length: 4},
		{Kind: "link", Offset: 10, Length: 19, Value: "https://example.com"}, {Kind: "link", Offset: 30, Length: 4, Value: "https://example.org"},
		{Kind: "mention", Offset: 30, Length: 4, Value: "7"}, {Kind: "pre", Offset: 30, Length: 4, Value: "go"},
	}
	for i, e := range m.entities {
		if e != want[i] {
			t.Errorf("%d: got %+v, want %+v", i, e, want[i])
		}
	}
}

func TestVisible(t *testing.T) {
	for html, want := range map[string]string{
		"<b>a</b> &lt;b&gt; &amp;lt; &quot;": `a <b> &lt; "`,
		`<a href="https://x/?a&amp;b">x</a>`: "x",
		"open <":                             "open ",
		"":                                   "",
	} {
		if got := visible(html); got != want {
			t.Errorf("%q shows %q, want %q", html, got, want)
		}
	}
}
