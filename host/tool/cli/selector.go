package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// selector finds values in an object: PATH, or PATH followed by conditions KEY=VALUE for the same object. A path is names and numbers
// joined by dots; * is each element of a list. So "message.content.*.text type=assistant" is every text of an assistant's message.
type selector struct {
	path  []string
	where []condition
}

type condition struct {
	path []string
	want string
}

// maxPath bounds the names of a path.
const maxPath = 16

func parseSelector(text string) (selector, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return selector{}, errors.New("selector is empty")
	}
	var s selector
	var err error
	if s.path, err = parsePath(words[0]); err != nil {
		return s, fmt.Errorf("selector %q: %w", text, err)
	}
	for _, w := range words[1:] {
		key, want, ok := strings.Cut(w, "=")
		if !ok {
			return s, fmt.Errorf("selector %q: the condition %q has no =", text, w)
		}
		path, err := parsePath(key)
		if err != nil {
			return s, fmt.Errorf("selector %q: %w", text, err)
		}
		s.where = append(s.where, condition{path, want})
	}
	return s, nil
}

func parsePath(text string) ([]string, error) {
	names := strings.Split(text, ".")
	if slices.Contains(names, "") || len(names) > maxPath {
		return nil, fmt.Errorf("%q is not a path such as message.content.*.text", text)
	}
	return names, nil
}

// find returns the selected values of a decoded object, in order.
func (s selector) find(object any) []any {
	for _, c := range s.where {
		if !slices.ContainsFunc(walk(object, c.path, nil), func(v any) bool { return plainText(v) == c.want }) {
			return nil
		}
	}
	return walk(object, s.path, nil)
}

func walk(v any, path []string, found []any) []any {
	if len(path) == 0 {
		return append(found, v)
	}
	switch v := v.(type) {
	case map[string]any:
		if inner, ok := v[path[0]]; ok {
			return walk(inner, path[1:], found)
		}
	case []any:
		if path[0] == "*" {
			for _, inner := range v {
				found = walk(inner, path[1:], found)
			}
			return found
		}
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(v) {
			return walk(v[i], path[1:], found)
		}
	}
	return found
}

// plainText formats a scalar; it returns "" for other values.
func plainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// selectors are the selectors of one field.
type selectors []selector

func parseSelectors(texts []string) (selectors, error) {
	var all selectors
	for _, text := range texts {
		s, err := parseSelector(text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// texts are the texts that any of them finds.
func (ss selectors) texts(object any) []string {
	var out []string
	for _, s := range ss {
		for _, v := range s.find(object) {
			if text := plainText(v); text != "" {
				out = append(out, text)
			}
		}
	}
	return out
}

// last is the last text that any of them finds.
func (ss selectors) last(object any) (string, bool) {
	found := ss.texts(object)
	if len(found) == 0 {
		return "", false
	}
	return found[len(found)-1], true
}

// count reads a number of tokens; it ignores a negative or absurd one.
func (ss selectors) count(object any) (int, bool) {
	text, ok := ss.last(object)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	const most = 1 << 40
	if err != nil || n < 0 || n > most {
		return 0, false
	}
	return int(n), true
}

// dollars reads an amount of money; it ignores a negative or absurd one.
func (ss selectors) dollars(object any) (float64, bool) {
	text, ok := ss.last(object)
	if !ok {
		return 0, false
	}
	usd, err := strconv.ParseFloat(text, 64)
	const most = 1e6
	if err != nil || !(usd >= 0 && usd <= most) {
		return 0, false
	}
	return usd, true
}

// finders are Fields, parsed.
type finders struct {
	delta, answer, failure, session      selectors
	input, output, cacheRead, cacheWrite selectors
	cost                                 selectors
}

func (f Fields) parse() (finders, error) {
	var out finders
	var all error
	for _, field := range []struct {
		key   string
		texts []string
		into  *selectors
	}{
		{"delta", f.Delta, &out.delta}, {"answer", f.Answer, &out.answer}, {"error", f.Error, &out.failure}, {"session", f.Session, &out.session},
		{"input", f.Input, &out.input}, {"output", f.Output, &out.output}, {"cache_read", f.CacheRead, &out.cacheRead},
		{"cache_write", f.CacheWrite, &out.cacheWrite}, {"cost", f.Cost, &out.cost},
	} {
		parsed, err := parseSelectors(field.texts)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("fields.%s: %w", field.key, err))
		}
		*field.into = parsed
	}
	return out, all
}

func (f Fields) check() error {
	_, err := f.parse()
	return err
}
