//go:build !linux

package plugin

// endStrays finds nothing: the environments of processes are read only on Linux.
func endStrays(string) int { return 0 }
