//go:build !linux

package jail

import (
	"errors"
	"os/exec"
)

// Weak returns what the jail does not hold on this system.
func Weak() []string {
	return []string{
		"a plugin has all rights of Flynn's user: this system has neither Landlock nor namespaces",
		"the memory of a plugin's children is not bounded: this system has no control groups",
	}
}

// Enter is for Linux alone.
func Enter() error {
	return errors.New("start a plugin in a jail: not supported on this system")
}

// Namespaces are for Linux alone.
type Namespaces struct{ Why string }

// FindNamespaces finds none.
func FindNamespaces() Namespaces { return Namespaces{Why: "this system has no namespaces"} }

// Apply changes nothing.
func (Namespaces) Apply(*exec.Cmd) {}

// Groups are for Linux alone, too.
type Groups struct{ Dir string }

// OpenGroups finds none.
func OpenGroups(string) (*Groups, error) { return nil, ErrNoGroups }

// Add makes none.
func (*Groups) Add(string, int64) (*Group, error) { return nil, ErrNoGroups }

// Beside finds none.
func (*Groups) Beside(string) string { return "" }

// Close has nothing to remove.
func (*Groups) Close() {}

// RemoveEmpty has nothing to remove.
func RemoveEmpty(string) {}

// Group limits one process and what it starts.
type Group struct{ Dir string }

// Occupied finds nobody.
func (*Group) Occupied() bool { return false }

// Exceeded finds nothing.
func (*Group) Exceeded() bool { return false }

// Remove has nothing to remove.
func (*Group) Remove() {}
