package sqlstore

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// searchedText bounds the part of a text that Postgres searches, in characters; see its migrations.
const searchedText = 200_000

// excerpt returns the words around the first one that was asked for, with a mark before and after each that was. The last word asked for
// may be the beginning of one. It is for Postgres, and does what SQLite's snippet does.
func excerpt(text string, asked []string, mark string) string {
	var parts []string
	for _, a := range asked {
		parts = append(parts, fields(a)...)
	}
	words := spans(text)
	hit := func(i int) bool {
		w := plain(text[words[i][0]:words[i][1]])
		for n, p := range parts {
			if w == p || n == len(parts)-1 && strings.HasPrefix(w, p) {
				return true
			}
		}
		return false
	}
	first := 0
	for first < len(words) && !hit(first) {
		first++
	}
	if first == len(words) {
		first = 0
	}
	from := max(0, first-excerptWords/2)
	to := min(len(words), from+excerptWords)
	if from == to {
		return text
	}
	var b strings.Builder
	at := words[from][0]
	if from == 0 {
		at = 0
	} else {
		b.WriteString("...")
	}
	for i := from; i < to; i++ {
		b.WriteString(text[at:words[i][0]])
		at = words[i][1]
		if word := text[words[i][0]:at]; hit(i) {
			b.WriteString(mark + word + mark)
		} else {
			b.WriteString(word)
		}
	}
	if to == len(words) {
		b.WriteString(text[at:])
	} else {
		b.WriteString("...")
	}
	return b.String()
}

// spans returns where the words of a text are.
func spans(text string) (all [][2]int) {
	begin := -1
	for i, r := range text {
		switch word := unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r); {
		case word && begin < 0:
			begin = i
		case !word && begin >= 0:
			all, begin = append(all, [2]int{begin, i}), -1
		}
	}
	if begin >= 0 {
		all = append(all, [2]int{begin, len(text)})
	}
	return all
}

func fields(text string) (all []string) {
	for _, s := range spans(text) {
		all = append(all, plain(text[s[0]:s[1]]))
	}
	return all
}

// plain returns a word in small letters, without diacritics.
func plain(word string) string {
	ascii := true
	for i := range len(word) {
		ascii = ascii && word[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(word)
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(word))
}
