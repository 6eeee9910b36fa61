//go:build !linux || !amd64

package stopwatch

func ticks() int64 { return 0 }

func steady() bool { return false }
