package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"unicode"

	"github.com/flynnhost/flynn/sdk/cut"
)

// maxShrinks bounds the questions for shrinking one find.
const maxShrinks = 4_000

// shrink makes a find as small as possible: it reverts each difference from the case, or makes it smaller, until nothing more helps. still
// reports whether an input is still a find.
func (s *session) shrink(ctx context.Context, in input, still func(input) bool) {
	left, kept := maxShrinks, 0
	try := func(path []string, v any) bool {
		if left--; left < 0 || ctx.Err() != nil {
			return false
		}
		next, ok := in.edit(path, v)
		if !ok || !still(next) {
			return false
		}
		in = next
		kept++
		return true
	}
	if !still(in) {
		return // it cannot be reproduced
	}
	for before := -1; left > 0 && before != kept; {
		before = kept
		for _, path := range differences(in.tree, in.origin.tree, true, nil) {
			if now, ok := get(in.tree, path); ok {
				reduce(now, path, in.origin.tree, try)
			}
		}
	}
}

// differences returns the paths below at whose values are not those of was, the outer ones first.
func differences(now, was any, had bool, at []string) [][]string {
	if had && reflect.DeepEqual(now, was) {
		return nil
	}
	var list [][]string
	if at != nil {
		list = append(list, at)
	}
	inner := func(step string, v any) {
		before, had := get(was, []string{step})
		list = append(list, differences(v, before, had, append(slices.Clone(at), step))...)
	}
	switch now := now.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(now)) {
			inner(key, now[key])
		}
	case []any:
		for i, item := range now {
			inner(strconv.Itoa(i), item)
		}
	}
	return list
}

// reduce reverts the value at a path, or makes it smaller.
func reduce(now any, path []string, origin any, try func([]string, any) bool) {
	was, had := get(origin, path)
	if !had {
		was = removed{}
	}
	if try(path, was) {
		return
	}
	switch now := now.(type) {
	case string:
		shortenString(now, func(text string) bool { return try(path, text) })
	case json.Number:
		n, _ := now.Int64()
		for _, v := range []int64{0, 1, n / 2} {
			if v < n && try(path, json.Number(strconv.FormatInt(v, 10))) {
				return
			}
		}
	case []any:
		for i := len(now) - 1; i >= 0; i-- {
			if shorter := slices.Delete(slices.Clone(now), i, i+1); try(path, shorter) {
				now = shorter
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(now)) {
			try(append(slices.Clone(path), key), removed{})
		}
	}
}

// shortenString removes runs of runes, large ones first, then replaces the rest by plain letters.
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

// changes returns the differences between a case and a question made from it, for people.
func changes(was, now input) []string {
	var list []string
	fields, names := facts()
	for i, field := range fields {
		if a, b := was.tree[field], now.tree[field]; !reflect.DeepEqual(a, b) {
			list = append(list, fmt.Sprintf("%s: %s in place of %s", names[i], shown(b), shown(a)))
		}
	}
	if string(was.Args) != string(now.Args) {
		list = append(list, fmt.Sprintf("args: %s in place of %s", clip(string(now.Args)), clip(string(was.Args))))
	}
	return list
}

func shown(v any) string {
	switch v.(type) {
	case string, []any:
		return clip(fmt.Sprintf("%q", v))
	}
	return fmt.Sprint(v)
}

// clip shortens a value for a line; the file of the find has all of it.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return cut.Head(s, most) + fmt.Sprintf("... (%d bytes)", len(s))
}
