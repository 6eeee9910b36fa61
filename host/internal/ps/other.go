//go:build !linux && !darwin

package ps

// Own returns ErrUnsupported.
func Own() ([]Process, error) { return nil, ErrUnsupported }

// Environ returns nothing.
func Environ(int) [][]byte { return nil }

// End kills nothing.
func End(int, func() bool) bool { return false }

// AwaitExit returns ErrUnsupported.
func AwaitExit(int) error { return ErrUnsupported }
