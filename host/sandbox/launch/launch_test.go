package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// A supervisor that is not exactly where it was put is refused, whatever else it says.
func TestCheckWelcome(t *testing.T) {
	good := func() (frame.WelcomeBody, *launchSpec) {
		w := frame.WelcomeBody{
			Version: frame.Version, PID: 1, Nonce: "n", NoNewPrivs: true, CapEff: capAll, CapBnd: capAll, RootReadOnly: true, WorkspaceMount: true,
			Interfaces: []string{"lo"}, Shell: "/bin/sh",
		}
		return w, &launchSpec{nonce: "n", container: driver.Container{Network: "none"}}
	}
	for _, c := range []struct {
		name  string
		spoil func(w *frame.WelcomeBody, o *launchSpec)
		want  string // in the error; "" for none
	}{
		{"as ordered", func(*frame.WelcomeBody, *launchSpec) {}, ""},
		{"endless shell", func(w *frame.WelcomeBody, _ *launchSpec) { w.Shell = strings.Repeat("x", 101) }, "no valid shell"},
		{"another version", func(w *frame.WelcomeBody, _ *launchSpec) { w.Version++ }, "protocol version"},
		{"bridge not asked for", func(w *frame.WelcomeBody, _ *launchSpec) { w.Bridge = true }, "bridge"},
		{"no bridge", func(_ *frame.WelcomeBody, o *launchSpec) { o.hello.Bridge = true }, "bridge"},
		{"no proxy", func(_ *frame.WelcomeBody, o *launchSpec) { o.hello.Proxy = true }, "proxy"},
		{"another process", func(w *frame.WelcomeBody, _ *launchSpec) { w.PID = 2 }, "another container"},
		{"another nonce", func(w *frame.WelcomeBody, _ *launchSpec) { w.Nonce = "m" }, "another container"},
		{"new privileges", func(w *frame.WelcomeBody, _ *launchSpec) { w.NoNewPrivs = false }, "privileges"},
		{"a capability too many", func(w *frame.WelcomeBody, _ *launchSpec) { w.CapEff |= 1 << 21 }, "privileges"},
		{"a capability to be had", func(w *frame.WelcomeBody, _ *launchSpec) { w.CapBnd |= 1 << 21 }, "privileges"},
		{"writable root", func(w *frame.WelcomeBody, _ *launchSpec) { w.RootReadOnly = false }, "writable"},
		{"no workspace", func(w *frame.WelcomeBody, _ *launchSpec) { w.WorkspaceMount = false }, "not mounted"},
		{"a way out", func(w *frame.WelcomeBody, _ *launchSpec) { w.Interfaces = []string{"lo", "eth0"} }, "network is off"},
		{"a way out as ordered", func(w *frame.WelcomeBody, o *launchSpec) {
			w.Interfaces, o.container.Network = []string{"lo", "eth0"}, "bridge"
		}, ""},
		{"a runtime that fakes /proc", func(w *frame.WelcomeBody, o *launchSpec) {
			w.NoNewPrivs, w.RootReadOnly, o.container.Runtime = false, false, spec.GVisor
		}, ""},
		{"another container of that runtime", func(w *frame.WelcomeBody, o *launchSpec) { w.Nonce, o.container.Runtime = "m", spec.GVisor }, "another container"},
		{"mounts that nobody ordered", func(w *frame.WelcomeBody, _ *launchSpec) { w.Mounts = []frame.FileID{{}} }, "does not report its mounts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, o := good()
			c.spoil(&w, o)
			err := checkWelcome(w, o, capAll)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A source that was swapped between the check and the mount is noticed where both saw the same kernel.
func TestVerifyMounts(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	held, err := mounts.Rules{Roots: []string{dir}}.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	set := mountSet{spec: spec.Spec{Mounts: []spec.HostMount{{Source: dir, Target: "/data"}}}, held: []*mounts.Source{held}}
	id := frame.FileID{Dev: held.ID().Dev, Ino: held.ID().Ino}
	here := string(bytes.TrimSpace(boot))
	for _, c := range []struct {
		name   string
		mounts []frame.FileID
		boot   string
		ok     bool
	}{
		{"the same", []frame.FileID{id}, here, true},
		{"another", []frame.FileID{{Dev: id.Dev, Ino: id.Ino + 1}}, here, false},
		{"another kernel's numbers", []frame.FileID{{}}, "elsewhere", true},
		{"nothing said", nil, here, false},
	} {
		if err := set.verify(frame.WelcomeBody{Mounts: c.mounts, BootID: c.boot}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestServiceStates(t *testing.T) {
	for _, c := range []struct {
		name           string
		now            driver.Condition
		healthy, ended bool
		sick, failed   string // why it will not be reached
	}{
		{"runs without a check", driver.Condition{Running: true}, true, false, "", ""},
		{"starts", driver.Condition{Running: true, Health: "starting"}, false, false, "", ""},
		{"healthy", driver.Condition{Running: true, Health: "healthy"}, true, false, "", ""},
		{"unhealthy", driver.Condition{Running: true, Health: "unhealthy"}, false, false, "is unhealthy", ""},
		{"done", driver.Condition{}, false, true, "has ended with exit code 0", ""},
		{"failed", driver.Condition{ExitCode: 3}, false, false, "has ended with exit code 3", "has ended with exit code 3"},
		{"no memory", driver.Condition{OOM: true, ExitCode: 137}, false, false, "memory", "memory"},
		{"gone", driver.Condition{Gone: true, ExitCode: 1}, false, false, "was removed", "was removed"},
	} {
		is, never := isHealthy(c.now)
		if is != c.healthy || (never == "") != (c.sick == "") || !strings.Contains(never, c.sick) {
			t.Errorf("%s: healthy %v, never %q; want %v, %q", c.name, is, never, c.healthy, c.sick)
		}
		is, never = hasEnded(c.now)
		if is != c.ended || (never == "") != (c.failed == "") || !strings.Contains(never, c.failed) {
			t.Errorf("%s: ended %v, never %q; want %v, %q", c.name, is, never, c.ended, c.failed)
		}
	}
}

// A service may have less than its sandbox and never more, and its labels are its own.
func TestServiceContainer(t *testing.T) {
	o := &launchSpec{
		spec:      spec.Spec{MemoryBytes: 100, CPUs: 2, PidsLimit: 10},
		container: driver.Container{Key: "k", Name: "n", Labels: map[string]string{driver.LabelSession: "s"}},
	}
	s := compose.Service{Name: "db", MemoryBytes: 200, CPUs: 1, Health: &compose.Health{Test: []string{"NONE"}, Retries: 3, Interval: time.Second}}
	c := serviceContainer(o, s, "beside")
	if c.MemoryBytes != 100 || c.CPUs != 1 || c.PidsLimit != 10 {
		t.Errorf("limits %d, %v, %d", c.MemoryBytes, c.CPUs, c.PidsLimit)
	}
	if c.Role != driver.Service || c.Name != "n-db" || c.Program.NetworkOf != "beside" || c.Labels[driver.LabelSession] != "s" || c.Labels[driver.LabelService] != "db" {
		t.Errorf("container %+v, program %+v", c, c.Program)
	}
	if h := c.Program.Health; h == nil || h.Retries != 3 || h.Interval != time.Second || h.Test[0] != "NONE" {
		t.Errorf("check %+v", h)
	}
	if _, shared := o.container.Labels[driver.LabelService]; shared {
		t.Error("the label of a service is on the container beside it")
	}
	if c := serviceContainer(o, compose.Service{Name: "x"}, ""); c.Program.Health != nil {
		t.Errorf("check %+v where the image's counts", c.Program.Health)
	}
}

// A new entrypoint drops the image's command, as the engine does.
func TestComposed(t *testing.T) {
	of := image.Info{Entrypoint: []string{"e"}, Cmd: []string{"c"}, Env: []string{"A=1"}, WorkingDir: "/w"}
	for _, c := range []struct {
		main compose.Service
		want []string
	}{
		{compose.Service{}, []string{"e", "c"}},
		{compose.Service{Command: []string{"x"}}, []string{"e", "x"}},
		{compose.Service{Entrypoint: []string{"y"}}, []string{"y"}},
		{compose.Service{Entrypoint: []string{}, Command: []string{"x"}}, []string{"x"}},
	} {
		c.main.Name = "main"
		info := composed(of, spec.Spec{Service: "main", Compose: &compose.Project{Services: []compose.Service{c.main}}})
		if got := slices.Concat(info.Entrypoint, info.Cmd); !slices.Equal(got, c.want) || info.WorkingDir != "/w" {
			t.Errorf("%+v: %q in %s, want %q", c.main, got, info.WorkingDir, c.want)
		}
	}
}

// Volumes of two sessions, of two instances and of all sessions have names of their own; so have those that only Flynn may name.
func TestVolumeNames(t *testing.T) {
	seen := map[string]string{}
	for what, name := range map[string]string{
		"a session's":            Volume{Name: "data", Session: "a"}.engineName("i"),
		"another session's":      Volume{Name: "data", Session: "b"}.engineName("i"),
		"shared":                 Volume{Name: "data"}.engineName("i"),
		"another instance's":     Volume{Name: "data", Session: "a"}.engineName("j"),
		"a project's":            projectVolume("a", "data").engineName("i"),
		"a session's folder":     Volume{Name: workspaceVolume, Session: "a"}.engineName("i"),
		"the supervisor's":       Volume{Name: supervisorVolume + "x"}.engineName("i"),
		"of a session \"\\x00\"": Volume{Name: "data", Session: "\x00"}.engineName("i"),
	} {
		if other, is := seen[name]; is {
			t.Errorf("%s and %s are both %s", what, other, name)
		}
		seen[name] = what
	}
	for _, own := range []string{workspaceVolume, supervisorVolume, projectVolume("", "x").Name} {
		if spec.CheckVolumeName(own) == nil {
			t.Errorf("the configuration may call a volume %s", own)
		}
	}
}

// An engine elsewhere gets no socket and no lease, and no folder of this host.
func TestNothingOfThisHostElsewhere(t *testing.T) {
	o := &launchSpec{ownership: container.NewKeys(nil).Own(t.TempDir(), "k")}
	o.hello.ControlSocket, o.hello.Lease, o.hello.Secret = "/s", time.Hour, []byte("x")
	o.container.Mounts = []driver.Mount{{Target: "/a"}, {Target: container.ControlFolder}, {Kind: driver.Volume, Target: "/b"}}
	o.dropControlSocket()
	if o.hello.ControlSocket != "" || o.hello.Lease != 0 || o.hello.Secret != nil {
		t.Errorf("hello %+v", o.hello)
	}
	if len(o.container.Mounts) != 2 || o.container.Mounts[0].Target != "/a" || o.container.Mounts[1].Target != "/b" {
		t.Errorf("mounts %+v", o.container.Mounts)
	}
	set := &mountSet{}
	if err := set.refuseBinds(o); err == nil || !strings.Contains(err.Error(), "/a") {
		t.Errorf("a folder of this host: %v", err)
	}
	o.container.Mounts = o.container.Mounts[1:]
	if err := set.refuseBinds(o); err != nil {
		t.Error(err)
	}
	set.spec.Mounts = []spec.HostMount{{Source: "/srv/x", Target: "/x"}}
	if err := set.refuseBinds(o); err == nil || !strings.Contains(err.Error(), "/srv/x") {
		t.Errorf("a configured folder of this host: %v", err)
	}
}

// The folder of bridged commands is named after what is in it, so containers with the same commands share one.
func TestLinkBridges(t *testing.T) {
	run := t.TempDir()
	a, err1 := linkBridges(run, []string{"git", "gh"})
	b, err2 := linkBridges(run, []string{"gh", "git"})
	c, err3 := linkBridges(run, []string{"gh"})
	if err1 != nil || err2 != nil || err3 != nil || a != b || a == c {
		t.Fatalf("%s, %s, %s: %v, %v, %v", a, b, c, err1, err2, err3)
	}
	if to, err := os.Readlink(filepath.Join(a, "git")); err != nil || to != supervisorPath {
		t.Errorf("git leads to %s: %v", to, err)
	}
}
