package sqlite

import (
	"sync"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// knownPlaces are places as the database has them, without asking it.
type knownPlaces struct {
	mu    sync.Mutex
	state int // counts the changes
	byKey map[string]turnlog.Place
}

// maxKnownPlaces bounds what is known.
const maxKnownPlaces = 4096

// get returns a place if it is known, and the state that keep asks for.
func (k *knownPlaces) get(key string) (p turnlog.Place, known bool, state int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, known = k.byKey[key]
	return p, known, k.state
}

// keep takes what was read, unless places were changed since state: then nobody knows whether it was read before that.
func (k *knownPlaces) keep(p turnlog.Place, state int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != state {
		return
	}
	if k.byKey == nil || len(k.byKey) == maxKnownPlaces {
		k.byKey = map[string]turnlog.Place{}
	}
	k.byKey[p.Key] = p
}

// changed forgets a place. It is called after the commit of a change, and before anybody hears of that.
func (k *knownPlaces) changed(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state++
	delete(k.byKey, key)
}
