package config

import (
	"fmt"
	"time"
)

// minSpan is the shortest time after which an idle container is paused or ended.
const minSpan = Duration(time.Second)

// span checks a duration that may be 0.
func (c *checker) span(at keyPath, d Duration) {
	if d > 0 && d < minSpan {
		c.report(at, fmt.Sprintf("%v is too short", d), fmt.Sprintf(`write at least "%v", or "0s" for never`, minSpan))
	}
}
