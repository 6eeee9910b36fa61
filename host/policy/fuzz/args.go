package fuzz

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// decodeArgs reads arguments; numbers stay what they are.
func decodeArgs(args json.RawMessage) (any, bool) {
	if len(args) == 0 {
		return map[string]any{}, true
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	return v, d.Decode(&v) == nil
}

// mutateArgs changes one value of the arguments, or which values there are.
func (s *session) mutateArgs(args json.RawMessage) json.RawMessage {
	v, ok := decodeArgs(args)
	if !ok {
		return args
	}
	changed, err := jsonform.Marshal(s.value(v, 0))
	if err != nil || len(changed) > maxArgs {
		return args
	}
	return changed
}

// value goes down to one of the values and changes it.
func (s *session) value(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		switch s.random.IntN(8) {
		case 0:
			v[s.word()] = s.newValue()
			return v
		case 1:
			if len(keys) > 1 {
				delete(v, keys[s.random.IntN(len(keys))])
			}
			return v
		}
		if len(keys) == 0 {
			return v
		}
		k := keys[s.random.IntN(len(keys))]
		v[k] = s.value(v[k], depth+1)
		return v
	case []any:
		switch n := len(v); {
		case s.random.IntN(4) == 0 && n < maxList:
			return slices.Insert(v, s.random.IntN(n+1), s.newValue())
		case n > 0 && s.random.IntN(4) == 0:
			k := s.random.IntN(n)
			return slices.Delete(v, k, k+1)
		case n > 0:
			k := s.random.IntN(n)
			v[k] = s.value(v[k], depth+1)
		}
		return v
	case string:
		if s.random.IntN(64) == 0 && depth > 0 {
			return s.newValue()
		}
		return s.text(v, maxArgs/2)
	case bool:
		return !v
	}
	return s.newValue()
}

// newValue is some value.
func (s *session) newValue() any {
	switch s.random.IntN(8) {
	case 0:
		return nil
	case 1:
		return s.random.IntN(2) == 0
	case 2:
		numbers := []json.Number{"0", "-0", "1", "-1", "1e400", "9007199254740993", "18446744073709551616", "0.1", "-2147483649"}
		return numbers[s.random.IntN(len(numbers))]
	case 3:
		return []any{}
	case 4:
		return map[string]any{}
	}
	return s.text(s.word(), maxString)
}

// kindAt returns the type of the value that a JSON Pointer names, "absent" if there is none.
func kindAt(args json.RawMessage, pointer string) string {
	v, ok := at(args, pointer)
	if !ok {
		return "absent"
	}
	return kindOf(v)
}

// at returns the value that a JSON Pointer names.
func at(args json.RawMessage, pointer string) (found any, ok bool) {
	if v, read := decodeArgs(args); read {
		_, ok = edited(v, steps(pointer), func(v any) any { found = v; return v })
	}
	return found, ok
}

func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

func steps(pointer string) []string {
	if pointer == "" {
		return nil
	}
	list := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, step := range list {
		list[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return list
}

func index(step string, n int) (int, bool) {
	k, err := strconv.Atoi(step)
	return k, err == nil && k >= 0 && k < n && strconv.Itoa(k) == step
}

// removed stands for a value that an edit takes out of its object.
type removed struct{}

func isRemoved(v any) bool {
	_, is := v.(removed)
	return is
}

// edited changes the value at the end of a path and reports whether there is one. Nothing is taken out of a list.
func edited(v any, path []string, change func(any) any) (any, bool) {
	if len(path) == 0 {
		return change(v), true
	}
	switch in := v.(type) {
	case map[string]any:
		if _, ok := in[path[0]]; !ok {
			return v, false
		}
		next, ok := edited(in[path[0]], path[1:], change)
		if in[path[0]] = next; isRemoved(next) {
			delete(in, path[0])
		}
		return in, ok
	case []any:
		k, ok := index(path[0], len(in))
		if !ok {
			return v, false
		}
		next, ok := edited(in[k], path[1:], change)
		if isRemoved(next) {
			return v, false
		}
		in[k] = next
		return in, ok
	}
	return v, false
}

// editAt changes the value that a JSON Pointer names and reports whether there was one. The arguments as a whole stay an object.
func editAt(args json.RawMessage, pointer string, change func(any) any) (json.RawMessage, bool) {
	v, ok := decodeArgs(args)
	if !ok || pointer == "" {
		return args, false
	}
	if v, ok = edited(v, steps(pointer), change); !ok {
		return args, false
	}
	changed, err := jsonform.Marshal(v)
	return changed, err == nil
}

// replaceAt puts another value, or removed{}, in place of one.
func replaceAt(args json.RawMessage, pointer string, replacement any) (json.RawMessage, bool) {
	return editAt(args, pointer, func(any) any { return replacement })
}

// duplicate writes a key of the outermost object twice, the well-formed value first.
func duplicate(args json.RawMessage, key string, second string) (json.RawMessage, bool) {
	v, ok := decodeArgs(args)
	object, isObject := v.(map[string]any)
	if _, has := object[key]; !ok || !isObject || !has {
		return args, false
	}
	whole, err := jsonform.Marshal(object)
	if err != nil {
		return args, false
	}
	name, err := jsonform.Marshal(key)
	return fmt.Appendf(whole[:len(whole)-1], ",%s:%s}", name, second), err == nil
}
