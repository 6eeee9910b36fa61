package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/sdk/cut"
)

// maxShrinks bounds the questions that making one find small may take.
const maxShrinks = 4_000

// shrink makes a find as small as it gets: first it takes back whole changes, then it shortens what is left. still tells
// whether the find is there.
func (s *session) shrink(ctx context.Context, in input, still func(input) bool) input {
	k := &shrinker{in: in, left: maxShrinks, still: func(in input) bool { return ctx.Err() == nil && still(in) }}
	if !k.try(in) {
		return in // it comes and goes
	}
	for before := -1; k.left > 0 && before != k.kept; {
		before = k.kept
		k.revert()
		k.shorten()
		k.prune()
	}
	return k.in
}

// shrinker holds the smallest find so far.
type shrinker struct {
	in    input
	left  int
	kept  int // changes that were for the better
	still func(input) bool
}

// try takes another input if it is a find as well.
func (k *shrinker) try(in input) bool {
	if k.left--; k.left < 0 {
		return false
	}
	in.Ask = in.Ask.Clone()
	in.Ask.Channel = ""
	if in.Ask.Settle() != nil || !k.still(in) {
		return false
	}
	k.in = in
	k.kept++
	return true
}

// each visits the facts that differ from the case's.
func (k *shrinker) each(visit func(field int, now, was reflect.Value)) {
	was := reflect.ValueOf(k.in.origin.Ask)
	for f := range was.NumField() {
		now := reflect.ValueOf(k.in.Ask).Field(f)
		if !fixed(was.Type().Field(f)) && !reflect.DeepEqual(now.Interface(), was.Field(f).Interface()) {
			visit(f, now, was.Field(f))
		}
	}
}

// with is the input with another value of one fact.
func (k *shrinker) with(field int, v reflect.Value) input {
	in := k.in
	in.Ask = in.Ask.Clone()
	reflect.ValueOf(&in.Ask).Elem().Field(field).Set(v)
	return in
}

// revert takes facts and arguments back to the case's.
func (k *shrinker) revert() {
	k.each(func(f int, _, was reflect.Value) { k.try(k.with(f, was)) })
	if string(k.in.Args) != string(k.in.origin.Args) {
		in := k.in
		in.Args = in.origin.Args
		k.try(in)
	}
}

// shorten shortens the strings and lists of the facts that still differ.
func (k *shrinker) shorten() {
	k.each(func(f int, now, _ reflect.Value) {
		switch {
		case now.Kind() == reflect.String:
			shortenString(now.String(), func(text string) bool { return k.try(k.with(f, reflect.ValueOf(text))) })
		case now.Kind() == reflect.Slice:
			for i := now.Len() - 1; i >= 0; i-- {
				list := reflect.ValueOf(k.in.Ask).Field(f).Interface().([]string)
				if i < len(list) {
					k.try(k.with(f, reflect.ValueOf(slices.Delete(slices.Clone(list), i, i+1))))
				}
			}
		case now.Kind() == reflect.Int, now.Kind() == reflect.Int64:
			for _, v := range []int64{0, 1, now.Int() / 2} {
				if v < now.Int() && k.try(k.with(f, reflect.ValueOf(v).Convert(now.Type()))) {
					break
				}
			}
		}
	})
}

// shortenString takes runs of runes out, large ones first, then makes plain letters of what is left.
func shortenString(text string, try func(string) bool) {
	runes := []rune(text)
	for size := len(runes); size > 0; size /= 2 {
		for at := 0; at+size <= len(runes); {
			shorter := slices.Delete(slices.Clone(runes), at, at+size)
			if try(string(shorter)) {
				runes = shorter
			} else {
				at += size
			}
		}
	}
	for i, r := range runes {
		if r != 'a' && len(runes) <= 64 && !unicode.IsSpace(r) {
			plain := slices.Clone(runes)
			if plain[i] = 'a'; try(string(plain)) {
				runes = plain
			}
		}
	}
}

// prune takes values out of the arguments and shortens their strings.
func (k *shrinker) prune() {
	if string(k.in.Args) == string(k.in.origin.Args) {
		return
	}
	v, ok := decodeArgs(k.in.Args)
	if !ok {
		return
	}
	// Each step is tried on a tree of its own, so that a failed one leaves nothing behind.
	for _, p := range pointersOf(v, "") {
		if args, ok := replaceAt(k.in.Args, p, removed{}); ok && k.tryArgs(args) {
			continue
		}
		v, _ := at(k.in.Args, p)
		text, ok := v.(string)
		if !ok {
			continue
		}
		shortenString(text, func(shorter string) bool {
			args, ok := replaceAt(k.in.Args, p, shorter)
			return ok && k.tryArgs(args)
		})
	}
}

func (k *shrinker) tryArgs(args json.RawMessage) bool {
	in := k.in
	in.Args = args
	return k.try(in)
}

// pointersOf are the JSON Pointers of all values, the inner ones behind the outer ones.
func pointersOf(v any, at string) []string {
	var list []string
	add := func(step string, v any) {
		p := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
		list = append(append(list, p), pointersOf(v, p)...)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			add(key, v[key])
		}
	case []any:
		for i, item := range v {
			add(strconv.Itoa(i), item)
		}
	}
	return list
}

// changes are the differences between a case and what came of it, for people.
func changes(was, now author.Case) []string {
	var list []string
	a, b := reflect.ValueOf(was.Ask), reflect.ValueOf(now.Ask)
	for f := range a.NumField() {
		field := a.Type().Field(f)
		if fixed(field) || reflect.DeepEqual(a.Field(f).Interface(), b.Field(f).Interface()) {
			continue
		}
		list = append(list, fmt.Sprintf("%s: %s in place of %s", field.Tag.Get("toml"), shown(b.Field(f).Interface()), shown(a.Field(f).Interface())))
	}
	if string(was.Args) != string(now.Args) {
		list = append(list, fmt.Sprintf("args: %s in place of %s", clip(string(now.Args)), clip(string(was.Args))))
	}
	return list
}

func shown(v any) string {
	switch v := v.(type) {
	case string:
		return clip(strconv.Quote(v))
	case []string:
		return clip(fmt.Sprintf("%q", v))
	}
	return fmt.Sprint(v)
}

// clip keeps a line readable; the file of the find has all of it.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return cut.Head(s, most) + fmt.Sprintf("... (%d bytes)", len(s))
}
