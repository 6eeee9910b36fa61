package edit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Table is a table to write. The keys that name it come first, the others in alphabetical order.
type Table map[string]any

// encode writes a value on one line. It accepts string, bool, int, int64, float64, []string, []any and Table.
func encode(value any) (string, error) {
	switch v := value.(type) {
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case string, float64:
		return scalar(v)
	case []string:
		return encodeList(v)
	case []any:
		return encodeList(v)
	case Table:
		return encodeInline(v)
	}
	return "", fmt.Errorf("cannot write a %T", value)
}

// scalar has the library write a string or a float.
func scalar(v any) (string, error) {
	text, err := toml.Marshal(map[string]any{"v": v})
	if err != nil {
		return "", fmt.Errorf("write a value: %w", err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(text), "v = ")), nil
}

func encodeList[T any](list []T) (string, error) {
	parts := make([]string, len(list))
	for i, v := range list {
		text, err := encode(v)
		if err != nil {
			return "", err
		}
		parts[i] = text
	}
	return "[" + strings.Join(parts, ", ") + "]", nil
}

func encodeInline(t Table) (string, error) {
	var parts []string
	for _, key := range keysOf(t) {
		text, err := encode(t[key])
		if err != nil {
			return "", err
		}
		parts = append(parts, writeKey(key)+" = "+text)
	}
	return "{ " + strings.Join(parts, ", ") + " }", nil
}

// first are the keys that people look for first in a table.
var first = []string{"name", "plugin", "policy", "provider", "model"}

// keysOf returns the keys in the order in which they are written.
func keysOf(t Table) []string {
	rank := func(key string) int {
		if i := slices.Index(first, key); i >= 0 {
			return i
		}
		return len(first)
	}
	return slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// writeKey writes a dotted key, with quotes where they are needed.
func writeKey(path ...string) string { return toml.Key(path).String() }
