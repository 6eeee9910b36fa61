package fuzz

import (
	"bytes"
	"encoding/json"
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

// kindAt is the type of the value that a JSON Pointer names, "absent" if there is none.
func kindAt(args json.RawMessage, pointer string) string {
	v, ok := at(args, pointer)
	if !ok {
		return "absent"
	}
	return kindOf(v)
}

// at is the value that a JSON Pointer names.
func at(args json.RawMessage, pointer string) (any, bool) {
	v, ok := decodeArgs(args)
	for _, step := range steps(pointer) {
		switch in := v.(type) {
		case map[string]any:
			v, ok = in[step]
		case []any:
			var k int
			if k, ok = index(step, len(in)); ok {
				v = in[k]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return v, ok
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

// replaceAt puts another value at a pointer, or takes the one that is there away. It reports whether there was one.
func replaceAt(args json.RawMessage, pointer string, replacement any, remove bool) (json.RawMessage, bool) {
	v, ok := decodeArgs(args)
	list := steps(pointer)
	if !ok || len(list) == 0 {
		return args, false
	}
	at := v
	for _, step := range list[:len(list)-1] {
		switch in := at.(type) {
		case map[string]any:
			at = in[step]
		case []any:
			k, ok := index(step, len(in))
			if !ok {
				return args, false
			}
			at = in[k]
		default:
			return args, false
		}
	}
	last := list[len(list)-1]
	switch in := at.(type) {
	case map[string]any:
		if _, ok = in[last]; !ok {
			return args, false
		}
		if in[last] = replacement; remove {
			delete(in, last)
		}
	case []any:
		k, ok := index(last, len(in))
		if !ok || remove {
			return args, false
		}
		in[k] = replacement
	default:
		return args, false
	}
	changed, err := jsonform.Marshal(v)
	return changed, err == nil
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
	if err != nil {
		return args, false
	}
	return append(append(append(append(whole[:len(whole)-1:len(whole)-1], ','), name...), ':'), second+"}"...), true
}
