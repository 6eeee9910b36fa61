// Package edit changes single keys and tables of a flynn.toml and leaves every other byte as it is: comments, order, alignment, line ends.
//
// Start with Text, which is edited in memory, and File, which reads it from disk and writes it back. Each edit is compared with its meaning:
// the text after it must decode to the values before it with that one change, or else the edit fails and the text stays as it was.
//
// An Editor has one edit made at a time, by the rooms of a running flynn and by commands alike. A File is written only if the loader accepts the
// new text, if nobody has changed the file since it was read, and in one step; what the running flynn refuses is undone. The package knows no
// keys of flynn.toml, prints nothing and asks the running flynn for nothing but to take up the file.
package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Text is the text of a configuration file that is being edited. The zero value is an empty file.
type Text struct{ src string }

// ErrMissing is the error of a removal of something that is not there.
var ErrMissing = errors.New("no such key")

// Parse returns a text to edit, which must be valid TOML.
func Parse(src []byte) (*Text, error) {
	if _, err := decode(string(src)); err != nil {
		return nil, err
	}
	return &Text{string(src)}, nil
}

// Bytes returns the text.
func (t *Text) Bytes() []byte { return []byte(t.src) }

// Has reports whether the text sets a key, or anything below it.
func (t *Text) Has(key ...string) bool {
	_, ok := t.Get(key...)
	return ok
}

// Get returns the value of a key, as the decoder of TOML has it.
func (t *Text) Get(key ...string) (value any, ok bool) {
	values, err := decode(t.src)
	if err != nil {
		return nil, false
	}
	return lookUp(values, key)
}

// Set gives a key the value, and makes the tables around it if they are missing. The key is given by its segments; an element of a list of
// tables is "[0]". A Table is added as a table of its own and must not be there yet.
func (t *Text) Set(value any, key ...string) error {
	if len(key) == 0 {
		return errors.New("set a value: no key")
	}
	if table, ok := value.(Table); ok {
		return t.apply(setIn(key, table), func(src string) (string, error) { return addTable(src, key, table, false) })
	}
	return t.apply(setIn(key, value), func(src string) (string, error) { return setValue(src, key, value) })
}

// Append adds an element to a list of tables, as [[key]].
func (t *Text) Append(table Table, key ...string) error {
	if len(key) == 0 {
		return errors.New("append a table: no key")
	}
	return t.apply(appendTo(key, table), func(src string) (string, error) { return addTable(src, key, table, true) })
}

// Remove removes a key or a table with everything in it. The comment directly above a table goes with it.
func (t *Text) Remove(key ...string) error {
	if !t.Has(key...) {
		return fmt.Errorf("remove %s: %w", writeKey(key...), ErrMissing)
	}
	return t.apply(removeFrom(key), func(src string) (string, error) { return removeKey(src, key), nil })
}

// apply makes a change of the text, and checks by its meaning that it changed what it should and nothing else.
func (t *Text) apply(change func(map[string]any) error, edit func(string) (string, error)) error {
	want, err := decode(t.src)
	if err != nil {
		return err
	}
	if err := change(want); err != nil {
		return err
	}
	next, err := edit(t.src)
	if err != nil {
		return err
	}
	got, err := decode(next)
	if err != nil || !same(want, got) {
		return fmt.Errorf("the file is written in a way that cannot be edited here by a command: change it by hand")
	}
	t.src = next
	return nil
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// newline returns the line end that the text uses.
func newline(src string) string {
	if i := strings.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
