package edit

import "github.com/rogpeppe/go-internal/diff"

// Diff returns the difference between two texts of a file for people, in the unified format; "" if there is none.
func Diff(name string, before, after []byte) string {
	return string(diff.Diff(name, before, name+" (new)", after))
}
