package frame

const (
	// SpillDir is where output beyond the cap is kept, relative to the workspace, as files NUMBER.log.
	SpillDir = ".flynn/output"
	// MaxSpill is the largest such number.
	MaxSpill = 1 << 30
	// MaxTail bounds how much of a stream's end is kept beside its beginning.
	MaxTail = 128 << 10
)

// Tail is how much of a stream's end a command with Spill sends once the stream is longer than limit; what is left of limit
// is its beginning.
func Tail(limit int64) int64 { return min(limit/2, MaxTail) }
