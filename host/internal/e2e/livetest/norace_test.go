//go:build !race

package livetest

// raced says that the tests were built with the race detector; then so are the programs.
const raced = false
