package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/cut"
)

// EditConfiguration implements gateway.Configurations.
func (s Settings) EditConfiguration(ctx context.Context, e gateway.ConfigurationEdit, by string) (gateway.ConfigurationEdited, error) {
	write := s.Editor.Rewrite
	if e.Restart {
		write = s.Editor.RewriteAndRestart
	}
	m, err := write(ctx, edit.Author{By: by, What: what(e)}, func(before []byte) ([]byte, error) {
		if err := s.seen(e, before); err != nil {
			return nil, err
		}
		return s.edited(e, before)
	})
	if err != nil {
		return gateway.ConfigurationEdited{}, gateway.NotEdited(err)
	}
	edited := gateway.ConfigurationEdited{
		Generation: m.Generation, Version: config.DigestOf(m.After), Difference: difference(s.Editor.Path, m.Before, m.After), Hosts: m.Hosts,
	}
	if e.Restart {
		next, err := config.LoadAs(s.Editor.Path, m.After, s.Editor.Getenv, s.Editor.Checks...)
		if err != nil {
			return edited, err
		}
		moved := s.restarting(next)
		edited.Restarting = &moved
	}
	return edited, nil
}

// what says for people what an edit changes.
func what(e gateway.ConfigurationEdit) string {
	switch {
	case e.Former != "":
		return "bring back " + e.Former
	case e.Text != nil:
		return "the whole text"
	}
	var keys []string
	for _, c := range e.Changes {
		if key := config.KeyString(c.Key...); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return cut.Head("change "+strings.Join(keys, ", "), maxWhat)
}

// maxWhat bounds what is recorded about an edit, in bytes.
const maxWhat = 300

// seen refuses an edit of a file that is not the one that the client saw.
func (s Settings) seen(e gateway.ConfigurationEdit, text []byte) error {
	if e.Version != config.DigestOf(text) {
		return store.Conflict(s.Editor.Path + " has changed since you read it: look at it again, and make the edit anew")
	}
	return nil
}

// edited returns the text after an edit.
func (s Settings) edited(e gateway.ConfigurationEdit, text []byte) ([]byte, error) {
	forms := 0
	for _, given := range []bool{e.Text != nil, len(e.Changes) > 0, e.Former != ""} {
		if given {
			forms++
		}
	}
	switch {
	case forms != 1:
		return nil, gateway.BadRequest("an edit has one of text, changes and former")
	case e.Former != "":
		former, err := config.HistoryOf(s.Holder.Current()).Read(e.Former)
		if errors.Is(err, fs.ErrNotExist) {
			err = store.NotFound(err.Error())
		}
		return former, err
	case e.Text != nil:
		whole, err := config.Unhide(*e.Text, string(text))
		if err != nil {
			return nil, gateway.BadRequest(err.Error())
		}
		return []byte(whole), nil
	}
	t, err := edit.Parse(text)
	if err != nil {
		return nil, store.Conflict(fmt.Sprintf("%s: %v: correct its text", s.Editor.Path, err))
	}
	if err := Change(t, e.Changes); err != nil {
		return nil, err
	}
	return t.Bytes(), nil
}

// Change makes changes of keys in a text. The error is of type *gateway.NotApplied.
func Change(t *edit.Text, changes []gateway.ConfigurationChange) error {
	for _, c := range changes {
		if err := change(t, c); err != nil {
			return &gateway.NotApplied{Problems: []gateway.ConfigurationProblem{{Key: config.KeyString(c.Key...), Text: err.Error()}}}
		}
	}
	return nil
}

func change(t *edit.Text, c gateway.ConfigurationChange) error {
	if c.Unset {
		if c.Value != nil || c.Add {
			return errors.New("unset has no value")
		}
		if !t.Has(c.Key...) {
			return nil // it is so already
		}
		return t.Remove(c.Key...)
	}
	if c.Move != nil {
		if c.Value != nil || c.Add {
			return errors.New("move has no value")
		}
		return t.Move(*c.Move, c.Key...)
	}
	value, err := valueOf(c.Value, 0)
	if err != nil {
		return err
	}
	table, isTable := value.(edit.Table)
	switch {
	case c.Add && !isTable:
		return errors.New("add takes a table")
	case c.Add:
		return t.Append(table, c.Key...)
	}
	return t.Set(value, c.Key...)
}

// maxDepth bounds the tables and lists in a value.
const maxDepth = 8

// maxExact is the largest integer that every reader of JSON reads as it is.
const maxExact = 1 << 53

// Value is a value of JSON as package edit takes it.
func Value(v any) (any, error) { return valueOf(v, 0) }

// valueOf is a value of JSON as package edit takes it.
func valueOf(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("the value has too many levels")
	}
	switch v := v.(type) {
	case nil:
		return nil, errors.New("a value is missing: TOML has no null; unset removes a key")
	case string:
		if config.HasMark(v) {
			return nil, errors.New("a <hidden> mark is no value: write the value itself, or edit the whole file, where a mark keeps what it stands for")
		}
		return v, nil
	case bool:
		return v, nil
	case float64:
		if v != math.Trunc(v) {
			return v, nil
		}
		if math.Abs(v) > maxExact {
			return nil, errors.New("the number is too large")
		}
		return int64(v), nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var err error
			if out[i], err = valueOf(e, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := edit.Table{}
		for name, e := range v {
			var err error
			if out[name], err = valueOf(e, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("a %T is no value", v)
}
