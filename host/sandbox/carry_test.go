package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// distant is a real engine of which the host believes that it is on another machine.
type distant struct{ *docker.Driver }

func (distant) Binds() bool { return false }

// Create insists that no container sees a folder of the host.
func (d distant) Create(ctx context.Context, c driver.Container) (string, error) {
	if slices.ContainsFunc(c.Mounts, func(m driver.Mount) bool { return m.Kind == driver.Bind }) {
		return "", errors.New("a container elsewhere mounts a folder of this machine")
	}
	return d.Driver.Create(ctx, c)
}

// distantManager returns a Manager on such an engine, which has no volumes of it when the test has ended.
func distantManager(t *testing.T, adjust ...func(*sandbox.Config)) (*sandbox.Manager, sandbox.Config) {
	t.Helper()
	h := sandboxtest.Engine(t)
	var instance string
	t.Cleanup(func() { // after the manager's own
		left, err := h.Driver.ListVolumes(context.Background(), instance)
		for _, v := range left {
			err = errors.Join(err, h.Driver.RemoveVolume(context.Background(), v.Name))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return h.Manager(t, append(adjust, func(c *sandbox.Config) { c.Driver, instance = distant{h.Driver}, c.Instance })...)
}

// The workspace is the host's folder: it outlives the volume that commands work on, however that ends.
func TestWorkspaceOutlivesItsVolume(t *testing.T) {
	t.Parallel()
	m, config := distantManager(t)
	h := sandboxtest.Engine(t)
	s := get(t, m, "s", config.Spec)
	shell(t, s, "mkdir d; echo kept >d/f")
	for name, end := range map[string]func() error{
		"its session is forgotten": func() error { return m.Forget(t.Context(), "s") },
		"somebody removes it": func() error {
			err := m.Destroy(t.Context(), "s")
			volumes, failure := h.Driver.ListVolumes(t.Context(), config.Instance)
			for _, v := range volumes {
				if v.Labels[driver.LabelSession] == "s" {
					failure = errors.Join(failure, h.Driver.RemoveVolume(t.Context(), v.Name))
				}
			}
			return errors.Join(err, failure)
		},
	} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		s = get(t, m, "s", config.Spec)
		if got := shell(t, s, "cat d/f; touch d/g; rm d/g"); got != "kept\n" {
			t.Errorf("when %s: %q", name, got)
		}
		if got := treeOf(t, home(t, config.WorkspaceRoot, "s")); !strings.Contains(got, "d/f -rw-r--r-- kept") {
			t.Errorf("when %s the host has %q", name, got)
		}
	}
}

func home(t *testing.T, root string, session message.WorkspaceKey) string {
	t.Helper()
	return workspace.Path(root, session)
}

// treeOf prints the tree of a folder of this machine, as show does inside.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		out.WriteString(name + " " + info.Mode().String())
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out.WriteString(" " + string(content))
		case info.Mode()&os.ModeSymlink != 0:
			link, _ := os.Readlink(p)
			out.WriteString(" -> " + link)
		}
		out.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The workspace of a container elsewhere is the host's folder, before the first command and after each.
func TestCarry(t *testing.T) {
	t.Parallel()
	m, config := distantManager(t)
	dir := home(t, config.WorkspaceRoot, "far:1")
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), mode), os.Chmod(p, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("a/f", "from home", 0o640)
	write("run", "#!/bin/sh\necho ran", 0o755)
	if err := os.Symlink("a/f", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	s := get(t, m, "far:1", config.Spec)
	if got := shell(t, s, "cat a/f l; ./run; stat -c '%a %u' a/f run; id -u"); got != "from homefrom homeran\n640 1000\n755 1000\n1000\n" {
		t.Errorf("inside: %q", got)
	}
	shell(t, s, "echo new >b; echo more >>a/f; rm run l; mkdir -p x/y; ln -s /etc/passwd x/out; mkfifo x/pipe; chmod 700 x; touch -d @1000000000 b")
	want := "a drwxr-xr-x\na/f -rw-r----- from homemore\n\nb -rw-r--r-- new\n\nx drwx------\nx/out Lrwxrwxrwx -> /etc/passwd\nx/y drwxr-xr-x\n"
	if diff := cmp.Diff(want, treeOf(t, dir)); diff != "" {
		t.Errorf("at home after a command (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "b")); err != nil || info.ModTime().Unix() != 1e9 {
		t.Errorf("time of b: %v (%v)", info.ModTime(), err)
	}
	if os.Geteuid() == 0 {
		checkOwner(t, filepath.Join(dir, "x/y"), filepath.Join(dir, "x/out"), filepath.Join(dir, "b"))
	}
	if err := errors.Join(s.WriteFile(t.Context(), "w", []byte("written"), 0), s.Remove(t.Context(), "b", false)); err != nil {
		t.Fatal(err)
	}
	// The files of a background process come home at the end.
	if _, err := s.Start(t.Context(), machine.Command{Script: "echo late >late; sleep 100"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the background process has written", func() bool {
		p, _, err := s.ReadFile(t.Context(), "late", 0, 10)
		return err == nil && string(p) == "late\n"
	})
	if err := m.Destroy(t.Context(), "far:1"); err != nil {
		t.Fatal(err)
	}
	want = "a drwxr-xr-x\na/f -rw-r----- from homemore\n\nlate -rw-r--r-- late\n\nw -rw-r--r-- written\nx drwx------\nx/out Lrwxrwxrwx -> /etc/passwd\nx/y drwxr-xr-x\n"
	if diff := cmp.Diff(want, treeOf(t, dir)); diff != "" {
		t.Errorf("at home at the end (-want +got):\n%s", diff)
	}

	// Between two containers the host changes things, kinds of entries among them.
	write("late", "changed at home", 0o600)
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "x")), os.Remove(filepath.Join(dir, "w"))); err != nil {
		t.Fatal(err)
	}
	write("w/inner", "a folder now", 0o644)
	write("x", "a file now", 0o644)
	s = get(t, m, "far:1", config.Spec)
	if got := shell(t, s, "cat late x w/inner; stat -c %a late; ls -A"); got != "changed at homea file nowa folder now600\na\nlate\nw\nx\n" {
		t.Errorf("inside again: %q", got)
	}
}

func checkOwner(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if uid := ownerOf(t, p); uid != 1000 {
			t.Errorf("%s belongs to user %d", p, uid)
		}
	}
}

// A container that dies, and a host that does, lose nothing that a command has written.
func TestCarrySurvives(t *testing.T) {
	t.Parallel()
	m, config := distantManager(t)
	dir := home(t, config.WorkspaceRoot, "far:1")
	s := get(t, m, "far:1", config.Spec)
	shell(t, s, "echo kept >kept; echo old >changed")
	if _, err := s.Start(t.Context(), machine.Command{Script: "echo late >late; echo new >changed; sleep 100"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the background process has written", func() bool {
		p, _, err := s.ReadFile(t.Context(), "changed", 0, 10)
		return err == nil && string(p) == "new\n"
	})
	owned, err := config.Driver.List(t.Context(), config.Instance)
	if err != nil || len(owned) != 1 {
		t.Fatal(owned, err)
	}
	if err := config.Driver.Remove(t.Context(), owned[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("changed at home\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := treeOf(t, dir); strings.Contains(got, "late") {
		t.Fatalf("it came home without a container: %s", got)
	}
	next, err := sandbox.New(config) // the next host
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := next.DestroyAll(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	s = get(t, next, "far:1", config.Spec)
	const want = "changed at home\nnew\nlate\n"
	if got := shell(t, s, "cat kept changed late"); got != want {
		t.Errorf("inside: %q", got)
	}
	for i, name := range []string{"kept", "changed", "late"} {
		if p, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(p) != strings.SplitAfter(want, "\n")[i] {
			t.Errorf("%s at home: %q (%v)", name, p, err)
		}
	}
}

// A workspace cannot lead the host out of the session's folder.
func TestCarryStaysAtHome(t *testing.T) {
	m, config := distantManager(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := get(t, m, "far:1", config.Spec)
	dir := home(t, config.WorkspaceRoot, "far:1")
	for _, script := range []string{
		"ln -s " + outside + " d; ln -s " + outside + "/f f; ln -s ../../.. up",
		"rm d f up; mkdir d up; echo evil >d/f; echo evil >f; echo evil >up/x",
		"rm -r d; ln -s " + outside + " d; rm -r up; ln -s .. up",
		"rm d; mkdir d; echo evil >d/g; chmod 4777 d/g; mkdir d/closed; chmod 0 d/closed d/g; mkfifo d/p",
	} {
		shell(t, s, script)
		if got := treeOf(t, outside); got != "f -rw------- kept" && got != "f -rw------- kept\n" {
			t.Fatalf("after %q outside: %q", script, got)
		}
	}
	if got := shell(t, s, "ls -Al d | wc -l"); got != "4\n" {
		t.Errorf("inside: %s", got)
	}
	if got := treeOf(t, dir); strings.Contains(got, "p p") || strings.Contains(got, "u") && strings.Contains(got, "-rws") {
		t.Errorf("at home: %s", got)
	}
}

// A file that is too large to be carried, or closed, stays where it is, and holds up nothing.
func TestCarryLeavesGiants(t *testing.T) {
	t.Parallel()
	m, config := distantManager(t)
	s := get(t, m, "far:1", config.Spec)
	shell(t, s, "truncate -s 1099511627776 giant; echo small >small; echo closed >closed; chmod 0 closed")
	if got := treeOf(t, home(t, config.WorkspaceRoot, "far:1")); got != "small -rw-r--r-- small\n\n" {
		t.Errorf("at home: %q", got)
	}
	if err := m.Destroy(t.Context(), "far:1"); err != nil {
		t.Fatal(err)
	}
	s = get(t, m, "far:1", config.Spec)
	if got := shell(t, s, "stat -c '%n %s' *"); got != "closed 7\ngiant 1099511627776\nsmall 6\n" {
		t.Errorf("inside again: %q", got)
	}
	shell(t, s, "rm -f giant closed small")
	if got := treeOf(t, home(t, config.WorkspaceRoot, "far:1")); got != "" {
		t.Errorf("at home in the end: %q", got)
	}
}

// The error says what an engine elsewhere cannot do.
func TestElsewhereRefusesMounts(t *testing.T) {
	m, config := distantManager(t)
	wanted := config.Spec
	wanted.Mounts = []spec.HostMount{{Source: "/usr/share", Target: "/share"}}
	_, err := m.Get(t.Context(), "far:1", "default", wanted)
	if !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "cannot mount /usr/share") {
		t.Errorf("got %v", err)
	}
}

// A sandbox elsewhere looks the same to a tool.
func TestElsewhereHasTheFilesOfAMachine(t *testing.T) {
	t.Parallel()
	m, config := distantManager(t)
	machinetest.FilesAtRest(t, func(t *testing.T) machine.Machine {
		s := get(t, m, message.WorkspaceKey("far:"+t.Name()), config.Spec)
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

func ownerOf(t *testing.T, p string) uint32 {
	t.Helper()
	info, err := os.Lstat(p)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
