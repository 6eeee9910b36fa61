//go:build !linux && !windows

package uptime

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is a clock that nobody can set and that, on a Mac, goes on while the machine is asleep.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("read CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(now.Nano())
}
