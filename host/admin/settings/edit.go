package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// EditConfiguration implements gateway.Configurations.
func (s *Settings) EditConfiguration(ctx context.Context, e gateway.ConfigurationEdit, by string) (out gateway.ConfigurationEdited, err error) {
	err = s.Edit(ctx, "the console", by, func(f *edit.File) error {
		if err := s.seen(e, f.Before()); err != nil {
			return err
		}
		text, err := s.edited(e, f.Before())
		if err != nil {
			return err
		}
		out.Difference = difference(f.Path(), f.Before(), text)
		return replace(f, text)
	})
	if err != nil {
		return gateway.ConfigurationEdited{}, err
	}
	now, err := config.Read(s.Holder.Path())
	out.Generation, out.Version = s.Holder.Current().Generation, version(s.Holder.Current(), now)
	return out, err
}

// Edit opens the file, has change edit it, and puts it in force. The file before is kept. what says what edits it, for the log.
func (s *Settings) Edit(ctx context.Context, what, by string, change func(f *edit.File) error) error {
	s.editing.Lock()
	defer s.editing.Unlock()
	f, err := s.open()
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	if f.Diff() == "" {
		return nil
	}
	if _, err := config.LoadAs(f.Path(), f.Bytes(), s.Getenv, s.Checks...); err != nil {
		_, hidden := config.Hide(string(f.Bytes()))
		return &gateway.NotApplied{Problems: problemsOf(err, hidden)}
	}
	current := s.Holder.Current()
	if config.DigestOf(f.Before()) != current.Digest { // it never was in force, and would be lost
		if err := config.HistoryOf(current).Keep(f.Before(), true); err != nil {
			return err
		}
	}
	generation, err := f.Apply(ctx, s.Getenv, s.Checks, s.Reload)
	if err != nil {
		return applied(err)
	}
	s.Log.Info("configuration edited", "by", by, "over", what, "generation", generation)
	return nil
}

// open opens the file. One that is not TOML can be replaced as a whole.
func (s *Settings) open() (*edit.File, error) {
	f, err := edit.OpenAny(s.Holder.Path())
	if err != nil {
		return nil, conflict(err)
	}
	return f, nil
}

// replace sets the text of a file. The error has the lines of what is no TOML.
func replace(f *edit.File, text []byte) error {
	if err := f.Replace(text); err != nil {
		_, hidden := config.Hide(string(text))
		_, err := config.LoadText(f.Path(), text, func(string) string { return "" })
		return &gateway.NotApplied{Problems: problemsOf(err, hidden)}
	}
	return nil
}

// applied sorts the errors of edit.File.Apply.
func applied(err error) error {
	if errors.Is(err, edit.ErrRefused) {
		return &gateway.NotApplied{Problems: problemsOf(err, nil)}
	}
	return conflict(err)
}

// conflict is an error about the file, which somebody else changed or which cannot be written.
func conflict(err error) error { return worded{err.Error(), errors.Join(store.ErrConflict, err)} }

// worded is an error with a text for people.
type worded struct {
	text string
	error
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.error }

// seen refuses an edit of a file that is not the one that the client saw.
func (s *Settings) seen(e gateway.ConfigurationEdit, text []byte) error {
	if e.Version != version(s.Holder.Current(), text) {
		return conflict(fmt.Errorf("%s has changed since you read it: look at it again, and make the edit anew", s.Holder.Path()))
	}
	return nil
}

// edited returns the text after an edit.
func (s *Settings) edited(e gateway.ConfigurationEdit, text []byte) ([]byte, error) {
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
			err = worded{err.Error(), store.ErrNotFound}
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
		return nil, conflict(fmt.Errorf("%s: %w: correct its text", s.Holder.Path(), err))
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
