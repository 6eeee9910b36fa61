//go:build !wasip1

package hostcall

// Host answers the calls of a policy that runs natively in a test.
type Host interface {
	Get(field, index uint32) (string, bool)
	Arg(pointer string) (string, bool)
	ArgKind(pointer string) int32
	Data(key string) (string, bool)
	Match(kind uint32, pattern, s string) int32
	Trace(rule, hit uint32)
	Log(level uint32, text string)
}

// Current is the host of the running test, or nil. A policy has one thread, and so have its tests.
var Current Host

// Get reads a field that is too large for the frame.
func Get(field, index uint32, buf []byte) int32 {
	if Current == nil {
		return -1
	}
	return give(buf)(Current.Get(field, index))
}

// Arg reads the tool's arguments by JSON Pointer.
func Arg(pointer string, buf []byte) int32 {
	if Current == nil {
		return -1
	}
	return give(buf)(Current.Arg(pointer))
}

// ArgKind returns the kind of value at a JSON Pointer.
func ArgKind(pointer string) int32 {
	if Current == nil {
		return 0
	}
	return Current.ArgKind(pointer)
}

// Data reads the policy's configured data.
func Data(key string, buf []byte) int32 {
	if Current == nil {
		return -1
	}
	return give(buf)(Current.Data(key))
}

// Match matches s: 1 yes, 0 no, -1 bad pattern.
func Match(kind uint32, pattern, s string) int32 {
	if Current == nil {
		return -1
	}
	return Current.Match(kind, pattern, s)
}

// Trace records a rule.
func Trace(rule, hit uint32) {
	if Current != nil {
		Current.Trace(rule, hit)
	}
}

// Log records a line.
func Log(level uint32, text string) {
	if Current != nil {
		Current.Log(level, text)
	}
}

func give(buf []byte) func(string, bool) int32 {
	return func(s string, ok bool) int32 {
		if !ok {
			return -1
		}
		if len(s) <= len(buf) {
			copy(buf, s)
		}
		return int32(len(s))
	}
}
