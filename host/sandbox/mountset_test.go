package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// allow lets sandboxes mount what lies below root.
func allow(root string) func(*sandbox.Config) {
	return func(c *sandbox.Config) {
		c.MountRules = func() mounts.Rules { return mounts.Rules{Roots: []string{root}} }
	}
}

// said runs a script in a session's sandbox and returns its trimmed output.
func said(t *testing.T, m *sandbox.Manager, session message.WorkspaceKey, spec spec.Spec, script string) string {
	t.Helper()
	s, err := m.Get(t.Context(), session, "default", spec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Exec(t.Context(), machine.Command{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
}

// folder makes a folder that everybody may write to, with a file in it.
func folder(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "name"), []byte(filepath.Base(dir)), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMountSet(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	root := t.TempDir()
	m, config := h.Manager(t, allow(root), func(c *sandbox.Config) { sweepVolumes(t, c.Instance) })
	wanted := config.Spec
	wanted.Mounts = []spec.HostMount{
		{Source: folder(t, root, "read"), Target: "/read"}, {Source: folder(t, root, "write"), Target: "/write", Writable: true},
		{Source: filepath.Join(root, "read", "name"), Target: "/etc/name"},
	}
	wanted.Volumes = []spec.VolumeMount{{Name: "own", Target: "/own"}, {Name: "all", Target: "/all", Shared: true}, {Name: "all", Target: "/look", Shared: true, ReadOnly: true}}
	wanted.Tmpfs = []spec.MemoryMount{{Target: "/memory", Bytes: 1 << 20}}
	for _, c := range []struct {
		session      message.WorkspaceKey
		script, want string
	}{
		{"a", "cat /read/name /write/name /etc/name", "readwriteread"},
		{"a", "echo x > /read/new || echo x > /etc/name", "/bin/sh: can't create /read/new: Read-only file system\n/bin/sh: can't create /etc/name: Read-only file system"},
		{"a", "echo new > /write/new; echo own > /own/f; echo all > /all/f; cat /write/new /own/f /look/f", "new\nown\nall"},
		{"a", "echo x > /look/f", "/bin/sh: can't create /look/f: Read-only file system"},
		{"a", "head -c 2000000 /dev/zero > /memory/f; stat -c %s /memory/f", "1048576"},
		{"b", "cat /all/f /own/f", "all\ncat: can't open '/own/f': No such file or directory"},
	} {
		// Streams are joined one after the other, so compare their lines in any order.
		got := said(t, m, c.session, wanted, c.script)
		for _, line := range strings.Split(c.want, "\n") {
			if !strings.Contains(got, line) {
				t.Errorf("%s: %s: got %q, without %q", c.session, c.script, got, line)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "write", "new")); string(text) != "new\n" {
		t.Errorf("the host reads %q, %v", text, err)
	}
	if err := m.Destroy(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := said(t, m, "a", wanted, "cat /own/f"); got != "own" {
		t.Errorf("after its container a session's volume holds %q", got)
	}
	if err := m.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := said(t, m, "a", wanted, "cat /all/f; ls /own"); got != "all" {
		t.Errorf("after being forgotten a session finds %q", got)
	}
}

func TestMountsNeedARoot(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	wanted := config.Spec
	wanted.Mounts = []spec.HostMount{{Source: t.TempDir(), Target: "/data"}}
	if _, err := m.Get(t.Context(), "a", "default", wanted); err == nil || !strings.Contains(err.Error(), "mount_roots") {
		t.Errorf("got %v", err)
	}
	if left := containers(t, h, config.Instance); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A link that takes the place of a folder after the configuration was read leads nowhere.
func TestMountSwappedAfterLoad(t *testing.T) {
	h := sandboxtest.Engine(t)
	root := t.TempDir()
	m, config := h.Manager(t, allow(filepath.Join(root, "allowed")))
	wanted := config.Spec
	wanted.Mounts = []spec.HostMount{{Source: folder(t, root, "allowed", "data"), Target: "/data"}}
	if got := said(t, m, "a", wanted, "cat /data/name"); got != "data" {
		t.Fatalf("got %q", got)
	}
	swap(t, filepath.Join(root, "allowed", "data"), folder(t, root, "secret"))
	if _, err := m.Get(t.Context(), "b", "default", wanted); err == nil || !strings.Contains(err.Error(), "leads to") {
		t.Errorf("got %v", err)
	}
	if got := said(t, m, "a", wanted, "cat /data/name"); got != "data" {
		t.Errorf("the container from before sees %q", got)
	}
}

func swap(t *testing.T, path, target string) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".was"), os.Symlink(target, path)); err != nil {
		t.Error(err)
	}
}

// swapper is an engine that takes its time: what it is asked to mount changes before it does.
type swapper struct {
	*docker.Driver
	before func()
}

func (s swapper) Start(ctx context.Context, id string) error {
	s.before()
	return s.Driver.Start(ctx, id)
}

// A link that takes the place of a folder after the last check is mounted by the engine, but no command ever sees it.
func TestMountSwappedAtTheLastMoment(t *testing.T) {
	h := sandboxtest.Engine(t)
	root := t.TempDir()
	allowed := filepath.Join(root, "allowed")
	data, secret := folder(t, allowed, "data"), folder(t, root, "secret")
	m, config := h.Manager(t, allow(allowed), func(c *sandbox.Config) {
		c.Driver = swapper{h.Driver, func() { swap(t, data, secret) }}
	})
	wanted := config.Spec
	wanted.Mounts = []spec.HostMount{{Source: data, Target: "/data"}}
	_, err := m.Get(t.Context(), "a", "default", wanted)
	if err == nil || !strings.Contains(err.Error(), "replaced meanwhile") {
		t.Errorf("got %v", err)
	}
	if left := containers(t, h, config.Instance); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// The engine's socket is out of reach although a folder above it is allowed.
func TestEngineSocketIsNeverMounted(t *testing.T) {
	h := sandboxtest.Engine(t)
	engine, err := h.Driver.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	socket, local := strings.CutPrefix(engine.Address, "unix://")
	if !local {
		t.Skip("the engine has no socket here")
	}
	m, config := h.Manager(t, allow("/"))
	for _, source := range []string{socket, filepath.Dir(socket), filepath.Dir(filepath.Dir(socket)), engine.DataRoot, config.WorkspaceRoot} {
		wanted := config.Spec
		wanted.Mounts = []spec.HostMount{{Source: source, Target: "/engine"}}
		if _, err := m.Get(t.Context(), "a", "default", wanted); err == nil {
			t.Errorf("%s was mounted", source)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(socket), link); err != nil {
		t.Fatal(err)
	}
	wanted := config.Spec
	wanted.Mounts = []spec.HostMount{{Source: link, Target: "/engine"}}
	if _, err := m.Get(t.Context(), "a", "default", wanted); err == nil || !strings.Contains(err.Error(), "leads to") {
		t.Errorf("through a link: %v", err)
	}
}
