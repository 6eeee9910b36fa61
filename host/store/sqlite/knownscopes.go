package sqlite

import (
	"sync"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// knownPlaces are places as the database has them, without asking it.
type knownScopes struct {
	mu    sync.Mutex
	state int // counts the changes
	byKey map[string]turnlog.Scope
}

// maxKnownPlaces bounds what is known.
const maxKnownScopes = 4096

// get returns a place if it is known, and the state that keep asks for.
func (k *knownScopes) get(key string) (p turnlog.Scope, known bool, state int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, known = k.byKey[key]
	return p, known, k.state
}

// keep takes what was read, unless places were changed since state: then nobody knows whether it was read before that.
func (k *knownScopes) keep(p turnlog.Scope, state int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != state {
		return
	}
	if k.byKey == nil || len(k.byKey) == maxKnownScopes {
		k.byKey = map[string]turnlog.Scope{}
	}
	k.byKey[p.Key] = p
}

// changed forgets a place. It is called after the commit of a change, and before anybody hears of that.
func (k *knownScopes) changed(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state++
	delete(k.byKey, key)
}
