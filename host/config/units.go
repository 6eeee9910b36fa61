package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written "512m".
type Size int64

// CPUs is a number of cores, written "1.5".
type CPUs float64

// Duration is a time span, written "50ms".
type Duration time.Duration

// unitError is the error of all UnmarshalText methods here.
type unitError struct{ problem, hint string }

func (e unitError) Error() string { return e.problem + "; " + e.hint }

// sizeUnits are the units of Size, largest first.
func sizeUnits() []struct {
	letter string
	bytes  int64
} {
	return []struct {
		letter string
		bytes  int64
	}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"b", 1}}
}

// UnmarshalText reads a whole number with the unit b, k, m or g; a unit is 1024 of the one below it.
func (s *Size) UnmarshalText(text []byte) error {
	for _, unit := range sizeUnits() {
		digits, found := strings.CutSuffix(strings.ToLower(string(text)), unit.letter)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || n > math.MaxInt64/uint64(unit.bytes) {
			break
		}
		*s = Size(int64(n) * unit.bytes)
		return nil
	}
	return unitError{fmt.Sprintf("%q is not a size", text), `write a whole number with unit k, m or g, such as "512m"`}
}

// String writes the size with the largest unit that loses nothing.
func (s Size) String() string {
	for _, unit := range sizeUnits() {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.letter
		}
	}
	return "0b"
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a decimal number, such as 1.5.
func (c *CPUs) UnmarshalText(text []byte) error {
	// Only digits and a point: ParseFloat alone would take "inf", "0x1p-2" and "1_0".
	if strings.Trim(string(text), "0123456789.") == "" {
		if f, err := strconv.ParseFloat(string(text), 64); err == nil {
			*c = CPUs(f)
			return nil
		}
	}
	return unitError{fmt.Sprintf("%q is not a number of cores", text), `write a decimal such as "1.5"`}
}

// String writes the number with at least one decimal.
func (c CPUs) String() string {
	text := strconv.FormatFloat(float64(c), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// MarshalText is String.
func (c CPUs) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a span as time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	if err != nil {
		return unitError{fmt.Sprintf("%q is not a duration", text), `write a number with unit ms, s, m or h, such as "50ms"`}
	}
	*d = Duration(span)
	return nil
}

// String writes the span as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalTOML writes true, false or the name.
func (r SandboxRef) MarshalTOML() ([]byte, error) {
	if r.Name != "" {
		return []byte(strconv.Quote(r.Name)), nil
	}
	return strconv.AppendBool(nil, r.Enabled), nil
}
