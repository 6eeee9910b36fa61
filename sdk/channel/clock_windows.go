package channel

import (
	"time"

	"golang.org/x/sys/windows"
)

// sinceBoot is a clock that nobody can set and that goes on while the machine is suspended.
func sinceBoot() time.Duration { return windows.DurationSinceBoot() }
