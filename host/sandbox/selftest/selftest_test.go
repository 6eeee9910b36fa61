package selftest_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

// suite runs the suite on the tests' engine with the default posture.
func suite(t *testing.T, adjust func(*selftest.Config)) selftest.Report {
	t.Helper()
	return suiteOn(t, sandboxtest.Engine(t), adjust)
}

func suiteOn(t *testing.T, h sandboxtest.Host, adjust func(*selftest.Config)) selftest.Report {
	t.Helper()
	config := h.Config(t)
	config.Spec.DiskBytes = 2 << 30 // as [sandbox] has it by default
	probe, err := program.FindProbe(config.Log)
	if err != nil {
		t.Fatal(err)
	}
	c := selftest.Config{
		Driver: h.Driver, Spec: config.Spec, Supervisor: config.Supervisor, Program: probe, Dir: t.TempDir(),
		Controls: true, Log: config.Log,
	}
	if adjust != nil {
		adjust(&c)
	}
	s, err := selftest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// usersRow is the one that only some engines hold.
const usersRow = "rights/user-namespace"

// ownUsers is the result of usersRow on an engine, by what that claims.
func ownUsers(t *testing.T, h sandboxtest.Host) selftest.Status {
	t.Helper()
	has, err := h.Driver.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(has.Features, driver.UserNamespaces) {
		return selftest.Pass
	}
	return selftest.Weak
}

// Every attack fails on a sandbox as it is by default, and succeeds where it must.
func TestEveryProbeHoldsAndEveryControlFails(t *testing.T) {
	current := goleak.IgnoreCurrent()
	t.Cleanup(func() { sandboxtest.GoroutinesEnd(t, current) }) // after the engine's connections are closed
	r := suite(t, nil)
	for _, o := range r.Outcomes {
		t.Run(o.Name, func(t *testing.T) {
			want := selftest.Pass
			if o.Name == usersRow {
				want = ownUsers(t, sandboxtest.Engine(t))
			}
			if o.Status != want {
				t.Errorf("%s: %s", o.Status, o.Detail)
			}
			if !o.Control.Failed {
				t.Errorf("the control did not fail: %s", o.Control.Detail)
			}
			t.Logf("%d ms, control %d ms; sandbox: %s; control: %s", o.TookMS, o.Control.TookMS, o.Detail, o.Control.Detail)
		})
	}
	if n := len(selftest.Probes()); len(r.Outcomes) != n || r.Failed != 0 || r.Controlled != n || !r.OK() {
		t.Errorf("%d probes: %d passed, %d weak, %d failed, %d controls failed as they must", n, r.Passed, r.Weak, r.Failed, r.Controlled)
	}
}

// TestDialed: every attack fails where the supervisor listens as well.
func TestDialed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	h := sandboxtest.Engine(t)
	r := suiteOn(t, h, func(c *selftest.Config) {
		d := h.Dialed(t, false)
		config := sandbox.Config{Log: c.Log}
		d.Adjust(&config)
		c.Driver, c.Supervisor, c.Controls = config.Driver, config.Supervisor, false
	})
	for _, o := range r.Outcomes {
		if o.Status != selftest.Pass && (o.Name != usersRow || o.Status != ownUsers(t, h)) {
			t.Errorf("%s: %s: %s", o.Name, o.Status, o.Detail)
		}
	}
	if len(r.Outcomes) < len(selftest.Probes())/2 {
		t.Errorf("%d attacks", len(r.Outcomes))
	}
	t.Logf("%d pass, %d weak, %d fail", r.Passed, r.Weak, r.Failed)
}

// TestPodman: every attack fails on Podman as well, whose own settings are looser than Docker's.
func TestPodman(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	h := sandboxtest.Podman(t)
	r := suiteOn(t, h, func(c *selftest.Config) { c.Controls = false })
	for _, o := range r.Outcomes {
		if o.Status != selftest.Pass && (o.Name != usersRow || o.Status != ownUsers(t, h)) {
			t.Errorf("%s: %s: %s", o.Name, o.Status, o.Detail)
		}
	}
	if !strings.HasPrefix(r.Engine, "Podman ") || len(r.Outcomes) != len(selftest.Probes()) {
		t.Errorf("%d attacks on %s", len(r.Outcomes), r.Engine)
	}
	t.Logf("%s: %d pass, %d weak, %d fail", r.Engine, r.Passed, r.Weak, r.Failed)
}
