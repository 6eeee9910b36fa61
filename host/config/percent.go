package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Percent is a share, written "2.5%".
type Percent float64

// UnmarshalText reads a decimal number before a percent sign, from 0 to 100.
func (p *Percent) UnmarshalText(text []byte) error {
	// Only digits and a point: ParseFloat alone would take "inf", "0x1p-2" and "1_0".
	digits, found := strings.CutSuffix(string(text), "%")
	if found && strings.Trim(digits, "0123456789.") == "" {
		if f, err := strconv.ParseFloat(digits, 64); err == nil && f <= 100 {
			*p = Percent(f)
			return nil
		}
	}
	return unitError{fmt.Sprintf("%q is not a share", text), `write a decimal from 0 to 100 with a percent sign, such as "1%"`}
}

// String writes the share with its sign.
func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "%" }

// MarshalText is String.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Share is the number from 0 to 1.
func (p Percent) Share() float64 { return float64(p) / 100 }
