package archive

import (
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// isHook reports whether git would run the file: it lies in the hooks folder of a repository or of one of its submodules.
func isHook(name string) bool {
	name = "/" + fold(name) + "/"
	if strings.Contains(name, fold("/.git/hooks/")) {
		return true
	}
	_, module, is := strings.Cut(name, fold("/.git/modules/"))
	if !is {
		return false
	}
	before, _, is := strings.Cut(module, fold("/hooks/"))
	return is && !strings.Contains(before+"/", fold("/refs/")) // a branch may have this name
}

// Hooks finds git hooks in a folder whose records come sorted by name, parents before children.
type Hooks struct {
	places []string        // the folder's location, and its destination
	heads  map[string]bool // folders with a HEAD: each of them may be a bare repository
}

// NewHooks returns a Hooks for a folder at the given location and destination.
func NewHooks(places ...string) *Hooks { return &Hooks{places: places, heads: map[string]bool{}} }

// Has reports whether git would run the file of the record.
func (h *Hooks) Has(r frame.Record) bool {
	name := string(r.Path)
	if fold(path.Base(name)) == fold("HEAD") {
		h.heads[path.Dir(name)] = true
	}
	for at := name; at != "."; at = path.Dir(at) {
		if fold(path.Base(at)) == fold("hooks") && h.heads[path.Dir(at)] {
			return true
		}
	}
	for _, place := range h.places {
		if isHook(path.Join(place, name)) {
			return true
		}
	}
	return false
}
