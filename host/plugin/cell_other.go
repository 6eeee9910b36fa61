//go:build !linux

package plugin

import "errors"

// report is what the launcher says before it becomes the plugin.
type report struct {
	Measures []Measure `json:"measures,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Contain is for Linux alone.
func Contain() error {
	return errors.New("hold a plugin in: this system has nothing for it that Flynn knows")
}
