package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

func TestTable(t *testing.T) {
	var b bytes.Buffer
	o := &output{out: &b}
	err := o.table([]string{"NAME", "WHY"}, [][]string{{"a", ""}, {"longer", "two\nlines\tand \x1b[31mred\u202e"}})
	want := "NAME    WHY\n" +
		"a       -\n" +
		"longer  two lines and  [31mred \n"
	if err != nil || b.String() != want {
		t.Errorf("printed %v\n%q, want\n%q", err, b.String(), want)
	}
}

func TestFail(t *testing.T) {
	bad := config.Errors{{File: "f", Line: 1, Problem: "p"}, {File: "f", Line: 2, Problem: "q"}}
	tests := map[string]struct {
		o    output
		err  error
		want string
	}{
		"plain":                     {output{}, usagef("no"), "flynn: no\n"},
		"colour":                    {output{colour: true}, usagef("no"), "\x1b[31mflynn:\x1b[0m no\n"},
		"json":                      {output{asJSON: true}, usagef("no"), `{"error":"no"}` + "\n"},
		"config":                    {output{}, bad, "f:1: p\nf:2: q\n"},
		"reported":                  {output{}, asReported(bad), ""},
		"joined":                    {output{}, errors.Join(errors.New("no"), errors.Join(errors.New("no"), errors.New("left")), errors.New("left")), "flynn: no; left\n"},
		"joined, with an exit code": {output{}, exited{errors.Join(errors.New("no"), errors.New("no")), 125}, "flynn: no\n"},
		"joined, with more before":  {output{}, fmt.Errorf("copy p: %w", errors.Join(errors.New("no"), errors.New("no"))), "flynn: copy p: no\n"},
		"more before the second":    {output{}, errors.Join(errors.New("no"), fmt.Errorf("copy p: %w", errors.New("no"))), "flynn: copy p: no\n"},
		"interrupted":               {output{interrupted: true}, fmt.Errorf("open the store: %w", context.Canceled), "flynn: open the store: interrupted\n"},
		"canceled by nobody":        {output{}, context.Canceled, "flynn: context canceled\n"},
		"one of two lines":          {output{}, fmt.Errorf("build: %w", errors.New("a\n^")), "flynn: build: a\n^\n"},
		"of two":                    {output{}, fmt.Errorf("%w\n: %w", io.EOF, io.ErrNoProgress), "flynn: EOF\n: " + io.ErrNoProgress.Error() + "\n"},
		"joined json":               {output{asJSON: true}, errors.Join(errors.New("no"), errors.New("no")), `{"error":"no"}` + "\n"},
		"nobody reads":              {output{}, fmt.Errorf("write: %w", syscall.EPIPE), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			test.o.err = &b
			test.o.fail(test.err)
			if b.String() != test.want {
				t.Errorf("printed %q, want %q", b.String(), test.want)
			}
		})
	}
}

func TestNoColourOffTerminal(t *testing.T) {
	if colourful(&strings.Builder{}, func(string) string { return "" }) {
		t.Error("a buffer is taken for a terminal")
	}
}

func TestExitCode(t *testing.T) {
	tests := map[string]struct {
		err  error
		want int
	}{
		"success":         {nil, 0},
		"failure":         {bytes.ErrTooLarge, 1},
		"usage":           {usagef("x"), 2},
		"configuration":   {config.Errors{{}}, 3},
		"reported":        {asReported(config.Errors{{}}), 3},
		"reported, clean": {asReported(nil), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(test.err); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}
