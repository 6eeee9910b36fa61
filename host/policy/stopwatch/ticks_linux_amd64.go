package stopwatch

import (
	"os"
	"strings"
)

// ticks is the processor's time stamp counter.
func ticks() int64

// steady reports whether the kernel keeps time by the counter.
func steady() bool {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(source)) == "tsc"
}
