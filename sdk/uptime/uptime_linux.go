package uptime

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is a clock that nobody can set and that goes on while the machine is suspended, unlike CLOCK_MONOTONIC, which package time reads.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("read CLOCK_BOOTTIME, which every kernel since 2.6.39 has: " + err.Error())
	}
	return time.Duration(now.Nano())
}
