package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// sinceFlag is --since, which means the same for every command: see when.
func sinceFlag(what string) *cli.StringFlag {
	return &cli.StringFlag{Name: "since", Usage: what + ": 90m, 7d, 2w, 2026-03-01 or 2026-03-01T12:00:00Z"}
}

// sinceOf returns the time of --since; zero without the flag.
func sinceOf(cmd *cli.Command) (time.Time, error) {
	return when("since", cmd.String("since"), time.Now())
}

// when reads a time as people type it: a span before now (90m, 7d, 2w), a day, or a time of day. Dates without a zone are local.
func when(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		if count, ok := strings.CutSuffix(text, unit); ok {
			if n, err := strconv.ParseUint(count, 10, 16); err == nil {
				return now.AddDate(0, 0, -days*int(n)), nil
			}
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, time.DateTime, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--%s: %q is not a time; write 90m, 7d, 2w, 2026-03-01 or 2026-03-01T12:00:00Z", flag, text)
}
