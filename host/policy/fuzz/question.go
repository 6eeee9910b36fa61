package fuzz

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// input is a question, with the case that it was made from.
type input struct {
	author.Case
	// tree has the facts by the names of their fields, and the arguments under argsKey, as JSON values. It is never changed in place.
	tree   map[string]any
	origin *input
	target *target

	fuel int64 // that it took; 0 before it is asked
}

const argsKey = "args"

// facts are the fields of author.Facts that are changed, in order, each with its name in case files. The list of agents is the operator's
// configuration, as the policy's data is, and stays; the channel is part of the sender.
func facts() (fields, names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[author.Facts]()) {
		if f.IsExported() && f.Name != "Agents" && f.Name != "Channel" {
			fields, names = append(fields, f.Name), append(names, f.Tag.Get("toml"))
		}
	}
	return fields, names
}

// newInput returns the question of a case.
func newInput(c author.Case, origin *input, t *target) input {
	in := input{Case: c, origin: origin, target: t, tree: map[string]any{}}
	fields, _ := facts()
	v := reflect.ValueOf(c.Ask)
	for _, name := range fields {
		text, _ := json.Marshal(v.FieldByName(name).Interface()) // numbers, strings and lists of strings
		in.tree[name] = decode(text)
		if in.tree[name] == nil {
			in.tree[name] = []any{}
		}
	}
	if c.Kind == policy.KindTool {
		in.tree[argsKey] = decode(c.Args)
	}
	return in
}

// decode decodes JSON without changing numbers; no JSON is an empty object.
func decode(text []byte) any {
	if len(text) == 0 {
		return map[string]any{}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return map[string]any{}
	}
	return v
}

// edit returns the input with another value at a path, whose first step is a field of the facts or argsKey. It reports whether that is a
// question that could be asked.
func (in input) edit(path []string, v any) (input, bool) {
	tree, ok := set(in.tree, path, v)
	if !ok {
		return in, false
	}
	in.tree = tree.(map[string]any)
	if path[0] == argsKey {
		if in.origin != nil && reflect.DeepEqual(in.tree[argsKey], in.origin.tree[argsKey]) {
			in.Args = in.origin.Args
			return in, true
		}
		text, err := jsonform.Marshal(in.tree[argsKey])
		in.Args = text
		_, object := in.tree[argsKey].(map[string]any)
		return in, err == nil && object && len(text) <= maxArgs
	}
	text, err := json.Marshal(map[string]any{path[0]: in.tree[path[0]]})
	in.Ask = in.Ask.Clone()
	if reflect.ValueOf(&in.Ask).Elem().FieldByName(path[0]).SetZero(); err != nil || json.Unmarshal(text, &in.Ask) != nil {
		return in, false
	}
	in.Ask.Channel = ""
	return in, in.Ask.Settle() == nil
}

// removed stands for a value that an edit takes out of its object.
type removed struct{}

// get returns the value at a path.
func get(v any, path []string) (any, bool) {
	for _, step := range path {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			k, ok := index(step, len(in))
			if !ok {
				return nil, false
			}
			v = in[k]
		default:
			return nil, false
		}
	}
	return v, true
}

// set returns a copy with another value at a path, and whether there was one. Nothing is removed from a list.
func set(v any, path []string, to any) (any, bool) {
	if len(path) == 0 {
		return to, true
	}
	child, ok := get(v, path[:1])
	if !ok {
		return v, false
	}
	if child, ok = set(child, path[1:], to); !ok {
		return v, false
	}
	switch in := v.(type) {
	case map[string]any:
		in = maps.Clone(in)
		if in[path[0]] = child; child == any(removed{}) {
			delete(in, path[0])
		}
		return in, true
	case []any:
		k, _ := index(path[0], len(in))
		in = slices.Clone(in)
		in[k] = child
		return in, child != any(removed{})
	}
	return v, false
}

func index(step string, n int) (int, bool) {
	k, err := strconv.Atoi(step)
	return k, err == nil && k >= 0 && k < n && strconv.Itoa(k) == step
}

// steps returns the path of a JSON Pointer.
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

// kindAt returns the type of the value that a JSON Pointer names, "absent" if there is none.
func kindAt(args json.RawMessage, pointer string) string {
	v, ok := get(decode(args), steps(pointer))
	if !ok {
		return "absent"
	}
	return kindOf(v)
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

// replaceAt puts another value, or removed{}, in place of the one that a JSON Pointer names. The arguments as a whole stay an object.
func replaceAt(args json.RawMessage, pointer string, to any) (json.RawMessage, bool) {
	v, ok := set(decode(args), steps(pointer), to)
	if !ok || pointer == "" {
		return args, false
	}
	changed, err := jsonform.Marshal(v)
	return changed, err == nil
}

// duplicate repeats a key of the outermost object with a second value.
func duplicate(args json.RawMessage, key string, second string) (json.RawMessage, bool) {
	object, _ := decode(args).(map[string]any)
	if _, has := object[key]; !has {
		return args, false
	}
	whole, err := jsonform.Marshal(object)
	if err != nil {
		return args, false
	}
	name, err := jsonform.Marshal(key)
	return fmt.Appendf(whole[:len(whole)-1], ",%s:%s}", name, second), err == nil
}
