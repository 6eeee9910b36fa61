package archive

import (
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// isHook reports whether git would run what is there: in the hooks of a repository, or of one of its modules.
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
	return is && !strings.Contains(before+"/", fold("/refs/")) // a branch may be called so
}

// Hooks finds the hooks of git in a folder whose records come in the order of their names, parents before children.
type Hooks struct {
	places []string        // where the folder lies, and where it is going to
	heads  map[string]bool // folders with a HEAD: each of them may be a repository without a .git
}

// NewHooks returns a Hooks of a folder that lies at, and is going to, such places.
func NewHooks(places ...string) *Hooks { return &Hooks{places: places, heads: map[string]bool{}} }

// Has reports whether git would run what the record describes.
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
