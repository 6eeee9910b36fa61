package edit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// decode returns the values of a text.
func decode(src string) (map[string]any, error) {
	values := map[string]any{}
	if _, err := toml.Decode(src, &values); err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return values, nil
}

// same reports whether two decoded texts mean the same. A table without keys means the same as none.
func same(a, b any) bool { return reflect.DeepEqual(plain(a), plain(b)) }

// plain brings values into one form: the forms of lists and of integers that the decoder and callers use differ.
func plain(v any) any {
	switch v := v.(type) {
	case Table:
		return plain(map[string]any(v))
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			value = plain(value)
			if t, ok := value.(map[string]any); !ok || len(t) > 0 {
				out[key] = value
			}
		}
		return out
	case int:
		return int64(v)
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		out := make([]any, list.Len())
		for i := range out {
			out[i] = plain(list.Index(i).Interface())
		}
		return out
	}
	return v
}

// lookUp returns the value of a key.
func lookUp(v any, key []string) (any, bool) {
	for _, segment := range key {
		switch at := v.(type) {
		case map[string]any:
			value, ok := at[segment]
			if !ok {
				return nil, false
			}
			v = value
		case []map[string]any:
			i, ok := index(segment, len(at))
			if !ok {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// index parses "[2]", the number of an element below n.
func index(segment string, n int) (int, bool) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(segment, "]"), "[")
	i, err := strconv.Atoi(digits)
	return i, ok && err == nil && i >= 0 && i < n && element(i) == segment
}

// around returns the table that holds a key, and makes it if it is missing.
func around(values map[string]any, key []string) (map[string]any, error) {
	for i, segment := range key[:len(key)-1] {
		switch at := values[segment].(type) {
		case nil:
			next := map[string]any{}
			values[segment] = next
			values = next
		case map[string]any:
			values = at
		case []map[string]any:
			n, ok := index(key[i+1], len(at))
			if !ok || i+2 >= len(key) {
				return nil, fmt.Errorf("%s is a list of tables", writeKey(key[:i+1]...))
			}
			return around(at[n], key[i+2:])
		default:
			return nil, fmt.Errorf("%s is not a table", writeKey(key[:i+1]...))
		}
	}
	return values, nil
}

func setIn(key []string, value any) func(map[string]any) error {
	return func(values map[string]any) error {
		table, err := around(values, key)
		if err != nil {
			return err
		}
		last := key[len(key)-1]
		_, isTable := value.(Table)
		if _, was := table[last].(map[string]any); isTable && table[last] != nil || was {
			return fmt.Errorf("%s is there already", writeKey(key...))
		}
		table[last] = value
		return nil
	}
}

func appendTo(key []string, value Table) func(map[string]any) error {
	return func(values map[string]any) error {
		table, err := around(values, key)
		if err != nil {
			return err
		}
		last := key[len(key)-1]
		switch list := table[last].(type) {
		case nil:
			table[last] = []map[string]any{value}
		case []map[string]any:
			table[last] = append(list, value)
		default:
			return fmt.Errorf("%s is not a list of tables", writeKey(key...))
		}
		return nil
	}
}

func removeFrom(key []string) func(map[string]any) error {
	return func(values map[string]any) error {
		last := key[len(key)-1]
		if list, ok := listOf(values, key); ok {
			i, _ := index(last, len(list))
			list = slices.Delete(slices.Clone(list), i, i+1)
			parent, err := around(values, key[:len(key)-1])
			if err != nil {
				return err
			}
			if name := key[len(key)-2]; len(list) == 0 {
				delete(parent, name)
			} else {
				parent[name] = list
			}
			return nil
		}
		table, err := around(values, key)
		if err == nil {
			maps.DeleteFunc(table, func(k string, _ any) bool { return k == last })
		}
		return err
	}
}

// listOf returns the list of tables of which a key names an element.
func listOf(values map[string]any, key []string) ([]map[string]any, bool) {
	if len(key) < 2 {
		return nil, false
	}
	v, _ := lookUp(values, key[:len(key)-1])
	list, ok := v.([]map[string]any)
	return list, ok
}
