package fuzz

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

// Bounds of changed values, in bytes or items. A text may be as long as channels allow.
const (
	maxString = 2 << 10
	maxItem   = 256
	maxList   = 64
	maxArgs   = 16 << 10
)

// known returns the values that a fact has in this version, if they are limited.
func known(field string) []string {
	switch field {
	case "Role":
		return []string{"owner", "member", "guest"}
	case "Door":
		return []string{"channel", "web", "terminal"}
	case "ConversationKind":
		return []string{string(message.DM), "group", "thread"}
	case "Effect":
		return []string{"read", "write", "execute", "network"}
	case "Zone":
		return []string{"UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin"}
	}
	return nil
}

func pick[T any](s *session, list []T) T { return list[s.random.IntN(len(list))] }

// mutate makes one to three changes.
func (s *session) mutate(in input) input {
	for range 1 + s.random.IntN(2)*s.random.IntN(3) {
		key := s.choose(in)
		v := in.tree[key]
		if other := pick(s, s.corpus); s.random.IntN(24) == 0 && other.Kind == in.Kind {
			v = other.tree[key]
		} else {
			v = s.mutated(key, v)
		}
		if next, ok := in.edit([]string{key}, v); ok {
			in = next
		}
	}
	return in
}

// choose returns a fact or the arguments, mostly what the policy reads.
func (s *session) choose(in input) string {
	if len(s.read) > 0 && s.random.IntN(6) > 0 {
		if key := pick(s, s.read); key != argsKey || in.Kind == policy.KindTool {
			return key
		}
	}
	keys, _ := facts()
	if in.Kind == policy.KindTool {
		keys = append(keys, argsKey)
	}
	return pick(s, keys)
}

// mutated returns another value of a fact, or other arguments.
func (s *session) mutated(key string, v any) any {
	list := known(key)
	switch {
	case key == argsKey:
		return s.value(v, 0, maxArgs/2, s.newValue)
	case key == "Now":
		return s.time(v.(string))
	case key == "Sender": // the instance stays mostly, because no question has one without it
		instance, id, _ := strings.Cut(v.(string), ":")
		return pick(s, []string{instance, instance, instance, strings.ReplaceAll(s.text(instance, 64), ":", "")}) + ":" + s.text(id, maxString)
	case key == "Attachments":
		return s.random.IntN(maxList)
	case key == "Text":
		return s.text(v.(string), message.MaxText)
	case key == "Zone" || len(list) > 0 && s.random.IntN(8) > 0:
		return pick(s, list)
	}
	switch was := v.(type) {
	case string:
		return s.text(was, maxString)
	case json.Number:
		n, _ := was.Int64()
		return s.integer(key, n)
	}
	return s.value(v, 0, maxItem, func() any { return s.text(s.word(), maxItem) })
}

// value changes one of the values in v. fresh makes new ones, of which strings have at most most bytes.
func (s *session) value(v any, depth, most int, fresh func() any) any {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		v = maps.Clone(v)
		switch n := s.random.IntN(8); {
		case n == 0:
			v[s.word()] = fresh()
		case n == 1 && len(keys) > 1:
			delete(v, pick(s, keys))
		case len(keys) > 0:
			k := pick(s, keys)
			v[k] = s.value(v[k], depth+1, most, fresh)
		}
		return v
	case []any:
		v = slices.Clone(v)
		n := len(v)
		switch k := s.random.IntN(n + 1); {
		case n < maxList && (n == 0 || s.random.IntN(3) == 0):
			return slices.Insert(v, k, fresh())
		case k < n && s.random.IntN(3) == 0:
			return slices.Delete(v, k, k+1)
		case k < n:
			v[k] = s.value(v[k], depth+1, most, fresh)
		}
		return v
	case string:
		if s.random.IntN(64) > 0 || depth == 0 {
			return s.text(v, most)
		}
	case bool:
		return !v
	}
	return fresh()
}

// newValue returns a random value.
func (s *session) newValue() any {
	switch s.random.IntN(8) {
	case 0:
		return nil
	case 1:
		return s.random.IntN(2) == 0
	case 2:
		return pick(s, []json.Number{"0", "-0", "1", "-1", "1e400", "9007199254740993", "18446744073709551616", "0.1", "-2147483649"})
	case 3:
		return []any{}
	case 4:
		return map[string]any{}
	}
	return s.text(s.word(), maxString)
}

// integer returns a number near a power of two or a hundred, or near the previous one. Only the seed may be negative.
func (s *session) integer(field string, was int64) int64 {
	most := 33
	if field == "SessionCost" || field == "SessionTokens" || field == "Seed" {
		most = 63
	}
	near := pick(s, []int64{was, was, 60, 100, 1 << s.random.IntN(most), 1 << s.random.IntN(most), 1 << s.random.IntN(most)})
	v := near + int64(s.random.IntN(5)) - 2
	if v < 0 && field != "Seed" {
		return 0
	}
	return v
}

// time returns a time within a week, in steps of a second, a minute or a day, or an edge case.
func (s *session) time(was string) string {
	t, _ := time.Parse(time.RFC3339, was)
	t = t.Add(time.Duration(s.random.IntN(15)-7) * pick(s, []time.Duration{time.Second, time.Minute, 97 * time.Minute, 24 * time.Hour}))
	if s.random.IntN(4) == 0 {
		t = time.Unix(pick(s, []int64{0, -1, 1<<31 - 1, 1 << 31, 951_782_400, 4_102_444_799}), 0).UTC()
	}
	return t.Format(time.RFC3339)
}

// dictionary returns the words in the cases and their data, in order.
func dictionary(cases []input) []string {
	seen := map[string]bool{}
	add := func(text string) {
		apart := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("=,;\"'", r) }
		for _, w := range append(strings.FieldsFunc(text, apart), text) {
			if w != "" && len(w) <= 64 {
				seen[w] = true
			}
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for key, item := range v {
				add(key)
				walk(item)
			}
		}
	}
	for _, c := range cases {
		for key, value := range c.Data {
			add(key)
			add(value)
		}
		for _, v := range c.tree {
			walk(v)
		}
	}
	return slices.Sorted(maps.Keys(seen))
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
func (s *session) word() string { return pick(s, s.words) }

// text returns another string of at most most bytes, which is valid UTF-8 as everything from channels is.
func (s *session) text(was string, most int) string {
	at := s.random.IntN(len(was) + 1)
	if s.random.IntN(2) == 0 {
		at = s.random.IntN(min(len(was), 8) + 1) // policies mostly look at the beginning
	}
	end := at + s.random.IntN(min(len(was)-at, 16)+1)
	changed := s.changed(was, at, end, most)
	return strings.ToValidUTF8(changed[:min(len(changed), most)], "")
}

// changed changes a string at a place.
func (s *session) changed(was string, at, end, most int) string {
	letter := string(rune(' ' + s.random.IntN(95)))
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
		return was[:at] + pick(s, nasty()) + was[at:]
	case 6:
		return was[:at] + was[end:]
	case 7:
		return was[:end] + was[at:]
	case 8:
		return pick(s, []string{strings.ToUpper(was), strings.ToLower(was), was[:at] + strings.ToUpper(was[at:end]) + was[end:]})
	case 9:
		return was[:at] + string(rune(s.random.IntN(128))) + was[end:]
	case 10:
		if s.random.IntN(8) == 0 {
			return s.repeated(was, most)
		}
		return was[:at]
	case 11, 12:
		return was[:at] + letter + was[min(at+1, len(was)):]
	}
	return was[:at] + letter + was[at:]
}

// repeated returns a short string repeated many times.
func (s *session) repeated(was string, most int) string {
	part := s.word()
	if was != "" && s.random.IntN(2) == 0 {
		_, n := utf8.DecodeRuneInString(was)
		part = was[:n]
	}
	part += pick(s, []string{"", " ", ";"})
	return strings.Repeat(part, min(1<<s.random.IntN(17), most)/max(len(part), 1)+1)
}
