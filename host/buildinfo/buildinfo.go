// Package buildinfo says which Flynn this program is: version, commit and date.
//
// Start with Get. The linker sets the values in a release (see cmd/flynn-release); a program that was built in another way has those that the
// go command recorded.
package buildinfo

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"time"
)

// Set by the linker, and by nothing else: -ldflags "-X github.com/flynnhost/flynn/host/buildinfo.version=v1.2.3".
var (
	version string
	commit  string
	date    string // of the commit, RFC 3339
)

// Info describes a program. Fields that nobody recorded are empty.
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Released reports whether the program comes from a release.
func Released() bool { return version != "" }

// Version returns the version alone.
func Version() string { return Get().Version }

// Get returns what is known of the running program.
func Get() Info {
	i := Info{Version: version, Commit: commit, Date: date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if !Released() {
		i.recorded()
	}
	i.Version = cmp.Or(i.Version, "(devel)")
	return i
}

// recorded fills in what the go command has recorded.
func (i *Info) recorded() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	i.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				i.Date = at.UTC().Format(time.RFC3339)
			}
		}
	}
}
