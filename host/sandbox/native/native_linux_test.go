package native_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
	"github.com/flynnhost/flynn/host/sandbox/native"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/sdk/need"
)

const instance = "test-native"

// open returns a driver, or skips the test where the system does not allow native sandboxes.
func open(t testing.TB, folder string) *native.Driver {
	t.Helper()
	d, err := native.New(native.Config{Folder: folder, Images: folder + "-images", Supervisor: supervisor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	need.Part(t, "namespace", d.Ping(t.Context()))
	return d
}

func supervisor() (string, error) { return program.FindSupervisor(slog.New(slog.DiscardHandler)) }

// small is a specification; native sandboxes have no image.
var small = spec.Spec{Image: "none", MemoryBytes: 128 << 20, PidsLimit: 64, CPUs: 2, BestEffort: true, Timeout: 30 * time.Second}

func manager(t testing.TB, adjust ...func(*sandbox.Config)) *sandbox.Manager {
	t.Helper()
	d := open(t, t.TempDir())
	path, err := supervisor()
	if err != nil {
		t.Fatal(err)
	}
	c := sandbox.Config{
		Driver: d, Instance: instance, WorkspaceRoot: t.TempDir(), Supervisor: path, Spec: small, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, a := range adjust {
		a(&c)
	}
	m, err := sandbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.DestroyAll(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		if left, err := d.List(ctx, instance); err != nil || len(left) > 0 {
			t.Errorf("left behind: %+v, %v", left, err)
		}
	})
	return m
}

// TestWhatASandboxSees runs commands that look for the host.
func TestWhatASandboxSees(t *testing.T) {
	if isolate.Test(t) {
		look(t, ".flynn-sandboxd bash ps ")
	}
}

func look(t *testing.T, processes string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the host's"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FLYNN_NATIVE_SECRET", "the host's")
	m := manager(t)
	s, err := m.Get(t.Context(), "web:one", "default", small)
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		"cat " + secret + " 2>&1":                                             "cat: " + secret + ": No such file or directory\n",
		"ls -A /home /root /run":                                              "/home:\n\n/root:\n\n/run:\n",
		"env | grep -c SECRET":                                                "0\n",
		"cut -d: -f1 /etc/passwd | tr '\\n' ' '":                              "root sandbox nobody ",
		"touch /usr/x /etc/x /x 2>/dev/null; ls /usr/x /x":                    "",
		"(echo 1 >/proc/sys/kernel/panic) 2>&1 | grep -c Read-only":           "1\n",
		"cat /proc/net/dev | grep -c :":                                       "1\n",
		"grep CapEff /proc/self/status":                                       "CapEff:\t0000000000000000\n",
		"unshare -U true 2>&1 | grep -c permitted":                            "1\n",
		"mount -t tmpfs x /tmp 2>/dev/null; echo $?":                          "32\n",
		"ps -e -o comm= >/tmp/ps 2>/dev/null; sort -u /tmp/ps | tr '\\n' ' '": processes,
		"printf 'a\\033[2Jb' > '/workspace/ünï\ncode'; ls -b":                 `ünï\ncode` + "\n",
		"cat /proc/1/environ":                                                 "",
		"kill -9 1; kill -STOP 1; echo still":                                 "still\n",
	} {
		r, err := s.Exec(t.Context(), machine.Command{Script: script})
		if err != nil || string(r.Stdout) != want {
			t.Errorf("%s: %q, want %q (%v, %s)", script, r.Stdout, want, err, r.Stderr)
		}
	}
}

// TestAbstractSockets: with the network of the host a sandbox would share its abstract sockets, of which no mount keeps it away.
func TestAbstractSockets(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	_, err := exec.LookPath("perl")
	need.Part(t, "perl", err)
	if version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); e != 0 || version < 6 {
		need.Part(t, "landlock", fmt.Errorf("version %d of Landlock", version))
	}
	l, err := net.Listen("unix", "@flynn-native-test")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := manager(t)
	open := small
	open.Network = "host"
	s, err := m.Get(t.Context(), "web:one", "default", open)
	if err != nil {
		t.Fatal(err)
	}
	const script = `perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or die; connect(S, pack("Sa*", AF_UNIX, "\0flynn-native-test")) or print $!'`
	if r, err := s.Exec(t.Context(), machine.Command{Script: script}); err != nil || string(r.Stdout) != "Operation not permitted" {
		t.Errorf("connected: %q, %v, %s", r.Stdout, err, r.Stderr)
	}
}

// TestSelfTestHolds attacks a native sandbox as its owner would.
func TestSelfTestHolds(t *testing.T) {
	if testing.Short() || !isolate.Test(t) {
		return
	}
	attack(t, small.Image)
}

// TestSelfTestHoldsForAUser attacks the sandbox of a user who may use no other ids, and whose process may not gain privileges.
func TestSelfTestHoldsForAUser(t *testing.T) {
	if testing.Short() || !asUser(t) {
		return
	}
	attack(t, small.Image)
}

// TestAUserSees is TestWhatASandboxSees for such a user.
func TestAUserSees(t *testing.T) {
	if asUser(t) {
		look(t, ".flynn-sandboxd bash ps ")
	}
}

// asUser runs the calling test again as a user without ranges of ids, and reports whether this is that run. setup are commands that root runs
// first; if there are any, network and mounts are the test's own.
func asUser(t *testing.T, setup ...string) bool {
	t.Helper()
	const again, id = "FLYNN_TEST_AS_USER", "54321"
	if os.Getenv(again) != "" {
		return true
	}
	if os.Getuid() != 0 {
		need.Part(t, "root", errors.New("only root can become another user"))
	}
	dir, err := os.MkdirTemp("", "native")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	programs := map[string]string{"native.test": os.Args[0]}
	c := selftest.Config{}
	if err := selftest.FindPrograms(&c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	programs["flynn-sandboxd"], programs["flynn-probe"] = c.Supervisor, c.Program
	for name, from := range programs {
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o777), os.Chmod(filepath.Join(dir, "tmp"), 0o777)); err != nil {
		t.Fatal(err)
	}
	args := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if len(setup) > 0 {
		args = append(args, "--net", "sh", "-e", "-c", strings.Join(append(setup, `exec "$@"`), "\n"), "sh")
	}
	args = append(args, "setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--no-new-privs", filepath.Join(dir, "native.test"), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd := exec.Command("unshare", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), again+"=1", "HOME="+dir, "TMPDIR="+filepath.Join(dir, "tmp"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
	t.Logf("as another user:\n%s", out)
	return false
}

func attack(t *testing.T, image string) {
	t.Helper()
	d := open(t, t.TempDir())
	c := selftest.Config{Driver: d, Spec: small, Dir: t.TempDir()}
	c.Spec.Image = image
	if err := selftest.FindPrograms(&c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	suite, err := selftest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	report, err := suite.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		if o.Status == selftest.Fail {
			t.Errorf("%s: %s", o.Name, o.Detail)
		}
	}
	t.Logf("%d pass, %d weak, %d fail", report.Passed, report.Weak, report.Failed)
}

// TestALaterHostFindsSandboxes: a host that dies leaves a process, which the next one lists and ends; a process that merely has its id lives on.
func TestALaterHostFindsSandboxes(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	folder := t.TempDir()
	first := open(t, folder)
	work := t.TempDir()
	if err := os.Chown(work, 1000, 1000); err != nil && os.Getuid() == 0 {
		t.Fatal(err)
	}
	path, err := supervisor()
	if err != nil {
		t.Fatal(err)
	}
	c := driver.Container{
		Key: "0123", Name: "flynn-x", Entrypoint: []string{"/.flynn-sandboxd", "nonce"}, Network: "none", PidsLimit: 16, MemoryBytes: 64 << 20, CPUs: 1,
		Labels: map[string]string{driver.LabelInstance: instance},
		Mounts: []driver.Mount{{Source: path, Target: "/.flynn-sandboxd", ReadOnly: true}, {Source: work, Target: "/workspace"}},
	}
	id, err := first.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := first.Create(t.Context(), c); err != nil || again != id {
		t.Errorf("a second call with the same key: %s, %v", again, err)
	}
	stream, err := first.Attach(t.Context(), id, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := first.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	second := open(t, folder)
	state := func(d *native.Driver) string {
		list, err := d.List(t.Context(), instance)
		if err != nil || len(list) != 1 || list[0].ID != id {
			t.Fatalf("the list: %+v, %v", list, err)
		}
		return list[0].State
	}
	if got := state(second); got != "running" {
		t.Errorf("to another host it is %s", got)
	}
	if others, err := second.List(t.Context(), "another"); err != nil || len(others) > 0 {
		t.Errorf("another instance owns %+v, %v", others, err)
	}
	if err := second.Remove(t.Context(), "flynn-x"); err != nil {
		t.Fatal(err)
	}
	if list, err := second.List(t.Context(), instance); err != nil || len(list) > 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
	if err := second.Remove(t.Context(), id); err != nil {
		t.Errorf("removed again: %v", err)
	}

	// A record whose process ended long ago, and whose id this test's own process has now.
	if err := os.MkdirAll(filepath.Join(folder, "0456", "root"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"Name":"old","Labels":{"flynn.instance":"` + instance + `"},"PID":` + strconv.Itoa(os.Getpid()) + `,"Began":1}`
	if err := os.WriteFile(filepath.Join(folder, "0456", "sandbox.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	id = "0456"
	if got := state(second); got != "exited" {
		t.Errorf("a process that has its id is taken for it: %s", got)
	}
	if err := second.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// hostWord has the folder of the host that TestHostProcess is.
const hostWord = "FLYNN_TEST_HOST"

// hostOf returns the manager of a host whose files are in a folder, and what is left of an earlier one.
func hostOf(t *testing.T, folder string) *sandbox.Manager {
	t.Helper()
	path, err := supervisor()
	if err != nil {
		t.Fatal(err)
	}
	m, err := sandbox.New(sandbox.Config{
		Driver: open(t, filepath.Join(folder, "native")), Instance: instance, WorkspaceRoot: filepath.Join(folder, "work"), Supervisor: path,
		Spec: small, Lease: time.Minute, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestHostProcess is no test, but the process of a host that is killed.
func TestHostProcess(t *testing.T) {
	folder := os.Getenv(hostWord)
	if folder == "" {
		t.Skip("TestACommandOutlastsItsHost runs this in another process")
	}
	s, err := hostOf(t, folder).Get(t.Context(), "web:one", "default", small)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), machine.Command{Script: "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nstarted", p.ID)
	select {}
}

// startHost runs a host in another process, which is killed at the end of the test, and returns what the host says after a word.
func startHost(t *testing.T, test, variable, word string) (cmd *exec.Cmd, said string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); t.Log(lines.Text()) {
		if said, is := strings.CutPrefix(lines.Text(), word); is {
			return cmd, said
		}
	}
	t.Fatal("the host ended without a word")
	return nil, ""
}

// TestACommandOutlastsItsHost: a host is killed, the next one takes its sandbox over, and not a line of the command's output is missing.
func TestACommandOutlastsItsHost(t *testing.T) {
	if isolate.Test(t) {
		outlast(t)
	}
}

// TestACommandOutlastsTheHostOfAUser is TestACommandOutlastsItsHost for a user without ranges of ids.
func TestACommandOutlastsTheHostOfAUser(t *testing.T) {
	if asUser(t) {
		outlast(t)
	}
}

func outlast(t *testing.T) {
	t.Helper()
	folder, err := os.MkdirTemp("", "native") // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	cmd, id := startHost(t, "TestHostProcess", hostWord+"="+folder, "started ")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	m := hostOf(t, folder)
	if n := m.Stats().Adopted; n != 1 {
		t.Fatalf("%d sandboxes were taken over", n)
	}
	s, err := m.Get(t.Context(), "web:one", "default", small)
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		o, err := s.Output(t.Context(), id, 0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(o.Data)) {
			if n++; line != strconv.Itoa(n)+"\n" {
				t.Fatalf("line %d of the command is %q", n, line)
			}
		}
		return n
	}
	for first := count(); count() <= first; time.Sleep(10 * time.Millisecond) {
		if t.Context().Err() != nil {
			t.Fatal("the command does not go on")
		}
	}
	if p, err := s.Kill(t.Context(), id); err != nil || p.Running {
		t.Errorf("killed: %+v, %v", p, err)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(folder, "native")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTwoProcessesShareTheGroup: a command that looks at the sandboxes of a host removes the empty control group of all when it ends. The host
// makes it again.
func TestTwoProcessesShareTheGroup(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	m := manager(t)
	other, err := native.New(native.Config{Folder: t.TempDir(), Supervisor: supervisor})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := m.Get(t.Context(), "web:one", "default", small)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Exec(t.Context(), machine.Command{Script: "echo here"}); err != nil || string(r.Stdout) != "here\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}

// TestLimitsThatCannotBeHeld are refused, unless the configuration does without them.
func TestLimitsThatCannotBeHeld(t *testing.T) {
	if !asUser(t) { // who has no control groups
		return
	}
	d := open(t, t.TempDir())
	c := driver.Container{Key: "a", Network: "none", MemoryBytes: 64 << 20}
	if id, err := d.Create(t.Context(), c); !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), `cannot hold memory_limit: `) {
		t.Errorf("without control groups: %q, %v", id, err)
	}
	engine, err := d.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Supports("none", "", false); err == nil {
		t.Errorf("it lacks %v, and supports a sandbox with limits", engine.Lacks)
	}
	c.BestEffort = true
	if err := engine.Supports("none", "", true); err != nil {
		t.Error(err)
	}
	if _, err := d.Create(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestWhatCannotBe is refused with the way out.
func TestWhatCannotBe(t *testing.T) {
	d := open(t, t.TempDir())
	for name, c := range map[string]struct {
		container driver.Container
		says      string
	}{
		"a network":     {driver.Container{Key: "a", Network: "bridge"}, "allowlist, none or host"},
		"a runtime":     {driver.Container{Key: "a", Network: "none", Runtime: "runsc"}, "remove runtime"},
		"a volume":      {driver.Container{Key: "a", Network: "none", Mounts: []driver.Mount{{Kind: driver.Volume, Target: "/cache"}}}, "/cache: use an engine"},
		"a service":     {driver.Container{Key: "a", Network: "none", Role: driver.Service}, "no services"},
		"a name":        {driver.Container{Key: "../../etc", Network: "none"}, "not a name"},
		"another name":  {driver.Container{Key: "..", Network: "none"}, "not a name"},
		"without a key": {driver.Container{Name: "a/b", Network: "none"}, "not a name"},
	} {
		if id, err := d.Create(t.Context(), c.container); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v, want %q", name, id, err, c.says)
		}
	}
	if err := d.Start(t.Context(), "unknown"); err == nil {
		t.Error("a sandbox that was never made starts")
	}
	if _, err := d.Attach(t.Context(), "unknown", t.Output()); err == nil {
		t.Error("a sandbox that was never made can be attached to")
	}
}
