package selftest_test

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

// The tricks on the proxy and on bridges fail on a sandbox without a network as on one that has a proxy itself.
func TestProxyAndBridgeProbes(t *testing.T) {
	r := suite(t, func(c *selftest.Config) {
		c.Spec.Network, c.Spec.Allowlist = "allowlist", []string{"example.com"}
		c.Only = func(name string) bool { return strings.HasPrefix(name, "proxy/") || strings.HasPrefix(name, "bridge/") }
	})
	for _, o := range r.Outcomes {
		if o.Status != selftest.Pass || !o.Control.Failed {
			t.Errorf("%s: %s: %s; control: %s", o.Name, o.Status, o.Detail, o.Control.Detail)
		}
	}
	if len(r.Outcomes) < 26 {
		t.Errorf("only %d probes", len(r.Outcomes))
	}
}
