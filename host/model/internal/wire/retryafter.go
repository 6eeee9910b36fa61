package wire

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter keeps an absurd header from overflowing a Duration.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads how long a server asks to wait: retry-after-ms, or Retry-After in seconds or as an
// HTTP date (RFC 9110, section 10.2.3). It returns 0 if there is none or it is malformed.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := amount(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	value := h.Get("Retry-After")
	if d, ok := amount(value, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(value); err == nil {
		return clamp(at.Sub(now))
	}
	return 0
}

func amount(value string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || n != n {
		return 0, false
	}
	if n >= float64(maxRetryAfter/unit) {
		return maxRetryAfter, true
	}
	return clamp(time.Duration(max(n, 0) * float64(unit))), true
}

func clamp(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }
