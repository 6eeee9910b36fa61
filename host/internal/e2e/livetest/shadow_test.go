package livetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/observe/shadowlog"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Shadows are asked what a running host decides, and nobody who writes to it notices: neither of one that would drop everything,
// nor of one that never comes to an end.
func TestShadowsChangeNothingLive(t *testing.T) {
	t.Parallel()
	shadow := func(name string) string {
		return fmt.Sprintf("[[policies]]\nname = %q\npath = \"%s/policy.wasm\"\nkinds = [\"route\"]\nshadow = true\nshadow_of = \"p\"\n", name, name)
	}
	s := newSite(t, swapConfig+shadow("drops")+shadow("spins"))
	s.write("p/policy.wasm", abstaining(1))
	s.write("drops/policy.wasm", string(w.Policy(1).Hook("flynn_route", "", w.I64(abi.RouteDrop))))
	s.write("spins/policy.wasm", string(w.Policy(1).Hook("flynn_route", "", w.Loop(w.Br(0)), w.I64(abi.RouteAbstain))))
	s.start()
	out, errs, err := s.flynn("hello\nhello again\n", "chat")
	if err != nil || strings.TrimSpace(out) == "" {
		t.Fatalf("chat: %v\n%s%s", err, out, errs)
	}
	s.eventually("what the shadows would have changed is known", func() error {
		changed := map[string]int64{}
		for _, r := range run[[]shadowlog.Report](s, "policy", "shadow") {
			changed[r.Policy] = r.Changed
		}
		if changed["drops"] != 2 || changed["spins"] != 2 {
			return fmt.Errorf("changed: %v", changed)
		}
		return nil
	})
	for _, name := range []string{"drops", "spins"} {
		if p := s.policy(name); !p.Shadow || p.ShadowOf != "p" {
			t.Errorf("%s: status %+v", name, p)
		}
	}
	if p := s.policy("p"); p.Failures != 0 || p.Decisions == 0 {
		t.Errorf("the policy in force: %+v", p)
	}
}
