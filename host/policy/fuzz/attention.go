package fuzz

import (
	"context"
	"reflect"
	"slices"

	"github.com/flynnhost/flynn/host/policy/author"
)

// facts are those of a case.
type facts = author.Facts

// arguments is the number of the tool's arguments among the fields.
func arguments() int { return reflect.TypeFor[facts]().NumField() }

// study adds the facts of a case that the policy reads, which it finds by asking without each fact in turn. A policy reads a handful of
// facts, and changes of the others would be wasted.
func (s *session) study(ctx context.Context, in input) error {
	uses, calls, err := in.target.warm.Uses(ctx, in.Case)
	if err != nil {
		return err
	}
	for _, u := range uses {
		if u.Use != author.Unread {
			s.reads(u.Name)
		}
	}
	for _, c := range calls {
		switch c.Name {
		case "arg", "arg_kind":
			s.reads("args")
		case "get":
			s.reads("text")
		}
	}
	return nil
}

func (s *session) reads(name string) {
	if f, ok := fieldNamed(name); ok && !slices.Contains(s.read, f) {
		s.read = append(s.read, f)
	}
}

// fieldNamed is the field that a fact of the frame comes from.
func fieldNamed(name string) (int, bool) {
	switch name {
	case "unix_time", "minute_of_day", "weekday":
		name = "now"
	case "text_len":
		name = "text"
	case "args":
		return arguments(), true
	}
	t := reflect.TypeFor[facts]()
	for f := range t.NumField() {
		if t.Field(f).Tag.Get("toml") == name {
			return f, true
		}
	}
	return 0, false
}

// choose returns one of the first n fields, mostly one that the policy reads.
func (s *session) choose(n int) int {
	if k := len(s.read); k > 0 && s.random.IntN(6) > 0 {
		if f := s.read[s.random.IntN(k)]; f < n {
			return f
		}
	}
	return s.random.IntN(n)
}
