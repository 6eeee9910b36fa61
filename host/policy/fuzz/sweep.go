package fuzz

import (
	"context"
	"reflect"
	"slices"
)

// The bounds of a sweep: the beginning of a string, in policies that are quick.
const (
	sweepEvery = 256 // changes, while there is something to sweep
	sweepBytes = 16
	sweepFuel  = 20_000 // of one question
)

// swept is a string of an input of the corpus that has been swept.
type swept struct{ input, field int }

// sweepNext sweeps the newest input that has a string which has not been swept.
func (s *session) sweepNext(ctx context.Context) {
	strings := s.readStrings()
	for k := len(s.corpus) - 1; k >= 0; k-- {
		for _, f := range strings {
			if done := (swept{k, f}); !s.swept[done] && s.corpus[k].fuel <= sweepFuel {
				s.swept[done] = true
				s.sweep(ctx, s.corpus[k], f)
				return
			}
		}
	}
}

// sweep tries every printable character in every place at the beginning of a string. A policy that compares letter by letter gives each of
// them away as soon as it is right, but chance alone takes long to put it there.
func (s *session) sweep(ctx context.Context, in input, f int) {
	text := reflect.ValueOf(in.Ask).Field(f).String()

	for at := range min(len(text), sweepBytes) {
		for c := byte(' '); c <= '~'; c++ {
			if s.over(ctx, int(c)) {
				return
			}
			s.sweepOne(ctx, in, f, text[:at]+string(rune(c))+text[at+1:])
		}
	}
}

// sweepOne checks the invariants only where something new runs.
func (s *session) sweepOne(ctx context.Context, in input, f int, text string) {
	in.Ask = in.Ask.Clone()
	reflect.ValueOf(&in.Ask).Elem().Field(f).SetString(text)
	if s.unsettled(&in.Ask) {
		return
	}
	got, record := s.ask(ctx, in)
	if s.novel(in.target) || got.Error != "" {
		in.fuel = record.Fuel
		s.check(ctx, in, got, record, true)
	}
}

// readStrings are the free texts among the facts that the policy reads.
func (s *session) readStrings() []int {
	t := reflect.TypeFor[facts]()
	var list []int
	for f := range t.NumField() {
		free := t.Field(f).Type.Kind() == reflect.String && !fixed(t.Field(f)) && len(known(t.Field(f).Name)) == 0 && t.Field(f).Name != "Now"
		if free && slices.Contains(s.read, f) {
			list = append(list, f)
		}
	}
	return list
}
