package fuzz

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// dictionary returns the words in the cases and their data, in order.
func dictionary(cases []input) []string {
	seen := map[string]bool{}
	add := func(text string) {
		for _, w := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("=,;\"'", r) }) {
			if len(w) <= 64 {
				seen[w] = true
			}
		}
	}
	for _, c := range cases {
		for key, value := range c.Data {
			add(key)
			add(value)
		}
		v := reflect.ValueOf(c.Ask)
		for k := range v.NumField() {
			switch f := v.Field(k); f.Kind() {
			case reflect.String:
				add(f.String())
				seen[f.String()] = true
			case reflect.Slice:
				for _, item := range f.Interface().([]string) {
					seen[item] = true
				}
			}
		}
		var args any
		if json.Unmarshal(c.Args, &args) == nil {
			eachString(args, add)
		}
	}
	delete(seen, "")
	words := make([]string, 0, len(seen))
	for w := range seen {
		words = append(words, w)
	}
	slices.Sort(words)
	return words
}

func eachString(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, item := range v {
			eachString(item, visit)
		}
	case map[string]any:
		for key, item := range v {
			visit(key)
			eachString(item, visit)
		}
	}
}

// nasty returns strings that parsers often handle wrongly: globs, quotes, control characters, and letters that look like others, that fold to
// others, or that consist of several code points.
func nasty() []string {
	return []string{
		"", " ", "\t", "\n", "\r\n", "\x00", "\x7f", "\x1b[0m", "*", "?", "[", "[!a]", "{a,b}", "**", "!", "#", "/", "//", "../", "\\", "\\\n", "'", "\"", "`",
		"$", "$(", "${", "$'", "$((", "%", "%s", "|", "||", "&", "&&", ";", "(", ")", "<", "<<", ">", ">&", "~", "=", ":", "@", ",", "-", "--", "+", "0", "-1",
		"1e999", "null", "true", "\u00a0", "\u200b", "\u200d", "\u202e", "\ufeff", "\ufffd", "é", "e\u0301", "İ", "ı", "ſ", "K", "ß", "ﬀ", "Ａ", "а", "🜁", "👩‍👩‍👧",
	}
}

// word returns a word of the dictionary.
func (s *session) word() string { return s.words[s.random.IntN(len(s.words))] }

// text returns another string of at most most bytes, which is valid UTF-8 as everything from channels is.
func (s *session) text(was string, most int) string {
	b := s.changed(was, most)
	for len(b) > most {
		b = b[:most]
	}
	return strings.ToValidUTF8(b, "")
}

func (s *session) changed(was string, most int) string {
	at := s.random.IntN(len(was) + 1)
	if s.random.IntN(2) == 0 {
		at = s.random.IntN(min(len(was), 8) + 1) // policies mostly look at the beginning
	}
	end := at + s.random.IntN(min(len(was)-at, 16)+1)
	switch s.random.IntN(14) {
	case 0:
		return s.word()
	case 1:
		return was[:at] + s.word() + was[at:]
	case 2:
		return was[:at] + " " + s.word() + " " + was[at:]
	case 3:
		return was[:at] + s.word() + was[end:]
	case 4, 5:
		list := nasty()
		return was[:at] + list[s.random.IntN(len(list))] + was[at:]
	case 6:
		return was[:at] + was[end:]
	case 7:
		return was[:end] + was[at:]
	case 8:
		return s.otherCase(was, at, end)
	case 9:
		return was[:at] + string(rune(s.random.IntN(128))) + was[end:]
	case 10:
		if s.random.IntN(8) == 0 {
			return s.repeated(was, most)
		}
		return was[:at]
	case 11, 12:
		return was[:at] + string(rune(' '+s.random.IntN(95))) + was[min(at+1, len(was)):]
	}
	return was[:at] + string(rune(' '+s.random.IntN(95))) + was[at:]
}

// otherCase changes the case of all or some letters.
func (s *session) otherCase(was string, at, end int) string {
	switch s.random.IntN(4) {
	case 0:
		return strings.ToUpper(was)
	case 1:
		return strings.ToLower(was)
	}
	return was[:at] + strings.ToUpper(was[at:end]) + was[end:]
}

// repeated returns a short string repeated many times.
func (s *session) repeated(was string, most int) string {
	part := s.word()
	if was != "" && s.random.IntN(2) == 0 {
		_, n := utf8.DecodeRuneInString(was)
		part = was[:n]
	}
	part += []string{"", " ", ";"}[s.random.IntN(3)]
	n := 1 << s.random.IntN(17)
	return strings.Repeat(part, min(n, most)/max(len(part), 1)+1)
}
