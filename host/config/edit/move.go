package edit

import (
	"errors"
	"fmt"
	"slices"
)

// Move moves an element of a list of tables, the key, to another place, counted from 0. The comment directly above it goes with it.
func (t *Text) Move(to int, key ...string) error {
	if len(key) < 2 || !t.Has(key...) {
		return fmt.Errorf("move %s: %w", writeKey(key...), ErrMissing)
	}
	list := key[:len(key)-1]
	return t.apply(moveTo(key, to), func(src string) (string, error) {
		at, ok := tableAt(src, key)
		if !ok {
			return "", errors.New("the list is written inside of a line: change it by hand")
		}
		nl := newline(src)
		table := src[at.start:at.end]
		rest := removeKey(src, key)
		if before, ok := tableAt(rest, append(slices.Clone(list), element(to))); ok {
			return insert(rest, before.start, table+nl), nil
		}
		after, ok := tableAt(rest, append(slices.Clone(list), element(to-1)))
		if !ok {
			return "", errors.New("the list is written in several ways: change it by hand")
		}
		return insert(rest, after.end, nl+table), nil
	})
}

// tableAt returns where an element of a list of tables stands, with the comment above it, to the end of its last line.
func tableAt(src string, key []string) (at span, ok bool) {
	all := scan(src)
	for i, st := range all {
		if !st.header || !slices.Equal(st.path, key) {
			continue
		}
		last := st
		for _, next := range all[i+1:] {
			if next.header && !hasPrefix(next.path, key) {
				break
			}
			last = next
		}
		return span{withComment(src, st.whole.start), last.whole.end}, true
	}
	return at, false
}

// moveTo is Move on values.
func moveTo(key []string, to int) func(map[string]any) error {
	return func(values map[string]any) error {
		list := key[:len(key)-1]
		v, _ := lookUp(values, list)
		elements, ok := v.([]map[string]any)
		if !ok {
			return fmt.Errorf("%s is not a list of tables", writeKey(list...))
		}
		from, ok := index(key[len(key)-1], len(elements))
		if !ok || to < 0 || to >= len(elements) {
			return fmt.Errorf("%s has %d elements", writeKey(list...), len(elements))
		}
		one := elements[from]
		copy(elements[from:], elements[from+1:])
		copy(elements[to+1:], elements[to:len(elements)-1])
		elements[to] = one
		return nil
	}
}
