package kind

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span in plugin.toml, written "10s".
type Duration time.Duration

// UnmarshalText parses the written form.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err == nil && v < 0 {
		err = errors.New("it is negative")
	}
	*d = Duration(v)
	return err
}

// Size is a number of bytes in plugin.toml, written "64MiB", "512KiB" or "1GiB".
type Size int64

// UnmarshalText parses the written form.
func (s *Size) UnmarshalText(text []byte) error {
	for unit, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		number, ok := strings.CutSuffix(string(text), unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > 1<<40/factor {
			return fmt.Errorf("%q is not a size", text)
		}
		*s = Size(n * factor)
		return nil
	}
	return fmt.Errorf("%q is not a size: write it as 64MiB", text)
}
