// Package cron parses cron expressions and computes when they are due.
//
// Start with Parse. An expression has the five fields of crontab(5): minute, hour, day of the month, month, day of the week; each is
// a list of values, ranges and steps, months and days of the week may be named. Where both days are restricted, either will do.
// Nothing else is taken: no seconds, no years, no @daily.
//
// A change of the clocks loses no run and repeats none: a time that a day skips is due right after the jump, once for all times that
// were skipped; a time that a day has twice is due the first time.
package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Expression is a parsed expression. The zero value is never due.
type Expression struct {
	minute, hour, day, month, weekday uint64 // bit n is set for the value n
	anyDay, anyWeekday                bool   // the field begins with a star
}

// maxText bounds an expression, in bytes.
const maxText = 512

// field is the grammar of one of the five fields.
type field struct {
	name     string
	min, max int
	names    []string // of values from min on
}

func fields() [5]field {
	months := []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	days := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	return [5]field{
		{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of the month", 1, 31, nil}, {"month", 1, 12, months}, {"day of the week", 0, 7, days},
	}
}

// Parse reads an expression. One that is never due, such as the 30th of February, is an error.
func Parse(text string) (Expression, error) {
	if len(text) > maxText {
		return Expression{}, fmt.Errorf("more than %d bytes", maxText)
	}
	words := strings.Fields(text)
	if len(words) != 5 {
		return Expression{}, fmt.Errorf("must have five fields (minute, hour, day of the month, month, day of the week), not %d", len(words))
	}
	var e Expression
	for i, bits := range []*uint64{&e.minute, &e.hour, &e.day, &e.month, &e.weekday} {
		var err error
		if *bits, err = fields()[i].parse(words[i]); err != nil {
			return Expression{}, err
		}
	}
	if e.weekday&(1<<7) != 0 { // Sunday has two numbers
		e.weekday = e.weekday&^(1<<7) | 1
	}
	e.anyDay, e.anyWeekday = words[2][0] == '*', words[4][0] == '*'
	if !e.possible() {
		return Expression{}, fmt.Errorf("never due: none of its months has such a day")
	}
	return e, nil
}

// parse reads a list of ranges.
func (f field) parse(word string) (bits uint64, err error) {
	for part := range strings.SplitSeq(word, ",") {
		b, err := f.parseRange(part)
		if err != nil {
			return 0, fmt.Errorf("%s %q: %w", f.name, word, err)
		}
		bits |= b
	}
	return bits, nil
}

// parseRange reads "*", "3", "1-5", "*/15" or "10-40/10".
func (f field) parseRange(part string) (uint64, error) {
	span, stepText, stepped := strings.Cut(part, "/")
	low, high, err := f.bounds(span)
	if err != nil {
		return 0, err
	}
	step := 1
	if stepped {
		if span != "*" && !strings.Contains(span, "-") {
			return 0, fmt.Errorf("a step needs a range, such as %s-%d/%s", span, f.max, stepText)
		}
		if step, err = number(stepText); err != nil || step < 1 {
			return 0, fmt.Errorf("%q is not a step", stepText)
		}
	}
	var bits uint64
	for v := low; v <= high; v += step {
		bits |= 1 << v
	}
	return bits, nil
}

func (f field) bounds(span string) (low, high int, err error) {
	if span == "*" {
		return f.min, f.max, nil
	}
	from, to, isRange := strings.Cut(span, "-")
	if low, err = f.value(from); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return low, low, nil
	}
	if high, err = f.value(to); err != nil {
		return 0, 0, err
	}
	if low > high {
		return 0, 0, fmt.Errorf("the range %s runs backwards", span)
	}
	return low, high, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := number(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not in %d to %d", text, f.min, f.max)
	}
	return n, nil
}

// number reads digits and nothing else.
func number(text string) (int, error) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// possible reports whether any day can match.
func (e Expression) possible() bool {
	if e.anyDay || !e.anyWeekday {
		return true // a day of the week comes in every month
	}
	for month := 1; month <= 12; month++ {
		longest := time.Date(2024, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if has(e.month, month) && e.day&(1<<(longest+1)-1) != 0 {
			return true
		}
	}
	return false
}

func has(bits uint64, v int) bool { return bits&(1<<v) != 0 }

// onDay reports whether a day is one of the expression's.
func (e Expression) onDay(t time.Time) bool {
	day, weekday := has(e.day, t.Day()), has(e.weekday, int(t.Weekday()))
	switch {
	case !has(e.month, int(t.Month())):
		return false
	case e.anyDay || e.anyWeekday:
		return day && weekday
	}
	return day || weekday
}
