package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing wrong with a configuration file.
type Error struct {
	File string `json:"file"`
	// Line counts from 1; 0 means that the error belongs to no line.
	Line int `json:"line"`
	// Key is the dotted path of the key, as TOML writes it; empty for a syntax error.
	Key string `json:"key,omitempty"`
	// Problem describes the error, Hint the remedy.
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

// Error prints "file:line: key: problem (hint)", leaving out what is empty.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Errors are all errors of a file, sorted by line. It is the error type of Load.
type Errors []Error

// Error prints one error a line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// sort orders by line, then key, and drops repetitions.
func (es Errors) sort() Errors {
	slices.SortStableFunc(es, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Problem, b.Problem))
	})
	return slices.Compact(es)
}
