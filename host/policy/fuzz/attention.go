package fuzz

import (
	"context"
	"math/rand/v2"
	"reflect"

	"github.com/flynnhost/flynn/host/policy/author"
)

// facts are those of a case.
type facts = author.Facts

// attention is which facts the policy looks at, by the number of the field, the tool's arguments last. A policy reads a handful of
// what there is, and most changes would be wasted on the rest.
type attention []float64

// How often a fact is changed, by what it is to the cases.
const (
	unread = 0.02
	absent = 0.1 // from the frames of all cases, so that nobody knows
	read   = 1
)

// arguments is the number of the tool's arguments among the fields.
func arguments() int { return reflect.TypeFor[facts]().NumField() }

func newAttention() attention {
	a := make(attention, arguments()+1)
	for f := range a {
		a[f] = absent
	}
	return a
}

// study finds out what the policy reads of a case, by asking without each fact in turn.
func (a attention) study(ctx context.Context, in input) error {
	uses, calls, err := in.target.warm.Uses(ctx, in.Case)
	if err != nil {
		return err
	}
	for _, u := range uses {
		if f, ok := fieldNamed(u.Name); ok {
			if u.Use != author.Unread {
				a[f] = read
			} else if a[f] != read {
				a[f] = unread
			}
		}
	}
	for _, c := range calls {
		switch c.Name {
		case "arg", "arg_kind":
			a[arguments()] = read
		case "get":
			if f, ok := fieldNamed("text"); ok {
				a[f] = read
			}
		}
	}
	return nil
}

// fieldNamed is the field that a fact of the frame comes from.
func fieldNamed(name string) (int, bool) {
	switch name {
	case "unix_time", "minute_of_day", "weekday":
		name = "now"
	case "text_len":
		name = "text"
	}
	t := reflect.TypeFor[facts]()
	for f := range t.NumField() {
		if t.Field(f).Tag.Get("toml") == name {
			return f, true
		}
	}
	return 0, false
}

// choose takes one of the first n fields, now and then any, mostly one that is read.
func (a attention) choose(random *rand.Rand, n int) int {
	if random.IntN(6) == 0 {
		return random.IntN(n)
	}
	total := 0.0
	for f := range n {
		total += a[f]
	}
	at := random.Float64() * total
	for f := range n {
		if at -= a[f]; at < 0 {
			return f
		}
	}
	return n - 1
}
