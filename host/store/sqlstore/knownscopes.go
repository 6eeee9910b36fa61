package sqlstore

import (
	"sync"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// knownScopes caches conversation scopes.
type knownScopes struct {
	mu    sync.Mutex
	state int // counts the changes
	byKey map[string]turnlog.Scope
}

// maxKnownScopes bounds the cache.
const maxKnownScopes = 4096

// get returns a cached scope, and the state to pass to keep.
func (k *knownScopes) get(key string) (p turnlog.Scope, known bool, state int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, known = k.byKey[key]
	return p, known, k.state
}

// keep caches a scope that was read, unless a scope has changed since state: the read may have been older.
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

// changed drops a scope. It is called after the commit of a change, before the change is reported.
func (k *knownScopes) changed(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state++
	delete(k.byKey, key)
}
