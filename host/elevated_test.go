package host

import (
	"testing"

	"github.com/flynnhost/flynn/host/sandbox"
)

func TestASandboxThatIsMadeOtherwiseHasAnotherDigest(t *testing.T) {
	m := &machines{specs: map[string]sandbox.Spec{"": {Image: "a"}, "same": {Image: "a"}, "other": {Image: "b"}, "open": {Image: "a", Network: "bridge"}}}
	own := m.Digest("")
	if own == "" || m.Digest("same") != own {
		t.Errorf("equal sandboxes have the digests %q and %q", own, m.Digest("same"))
	}
	for _, name := range []string{"other", "open"} {
		if m.Digest(name) == own {
			t.Errorf("%s has the digest of another sandbox", name)
		}
	}
	if got := m.Digest("none"); got != "" {
		t.Errorf("a sandbox that is not there has the digest %q", got)
	}
}
