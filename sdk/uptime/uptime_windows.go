package uptime

import (
	"time"

	"golang.org/x/sys/windows"
)

// SinceBoot is a clock that nobody can set and that goes on while the machine is suspended.
func SinceBoot() time.Duration { return windows.DurationSinceBoot() }
