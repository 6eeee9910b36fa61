package sqlstore

import (
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

func TestKnownScopesAreBounded(t *testing.T) {
	var k knownScopes
	for i := range 3 * maxKnownScopes {
		k.keep(turnlog.Scope{Key: string(rune(i))}, 0)
	}
	if len(k.byKey) > maxKnownScopes {
		t.Errorf("%d are known", len(k.byKey))
	}
}
